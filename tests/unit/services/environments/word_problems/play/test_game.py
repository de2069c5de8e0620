"""What a conversation shows, pays and reports, over families, difficulties, seeds and follow-ups."""

from __future__ import annotations

import dataclasses
import gc
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from types import FunctionType, MethodType, ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.environments.playing import weigh
from services.environments.word_problems.families.registry import FAMILIES, generate
from services.environments.word_problems.instructions import ROLES
from services.environments.word_problems.play.game import Conversation, ProblemGame, WorkedSolutions
from services.environments.word_problems.problem import DIFFICULTIES, Question, WordProblem, completion_text
from services.environments.word_problems.rewards.mixture import Mixture
from services.environments.word_problems.rewards.settings import RewardSettings
from tests.unit.services.environments.word_problems.play.worlds import word_problems

PROBLEMS = st.builds(generate, st.sampled_from(sorted(FAMILIES)), st.sampled_from(DIFFICULTIES), st.integers(0, 10**9))
REWARDS = [{"exact_number": 0.9, "form": 0.1}, {"similarity": 3.0, "exact_number": 1.0}, {"unique_characters": 2.0}]
HOSTILE = [
    "",
    " ",
    "\x00",
    "\ud800",
    "\u202e9",
    "<response>",
    "</response>" * 100,
    "<think><think>",
    "#### " * 50,
    "9" * 5000,
    "<response>1e999</response>",
    "<response>nan</response>",
    "<response>-0</response>",
    "1/0",
    "<think>a</think>\n<response>1</response>",
    "𝟙𝟚" * 100,
    "x" * 100_000,
]


def reachable(thing: object) -> Iterator[object]:
    """Everything that a program holding a thing can get at, classes and modules aside."""
    seen: dict[int, object] = {}
    waiting = [thing]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type | ModuleType | FunctionType | MethodType):
            continue
        seen[id(each)] = each
        yield each
        waiting += gc.get_referents(each)


def conversation(problem: WordProblem, follow_ups: int, seed: int, role: str = ROLES[0]) -> ProblemGame:
    return ProblemGame(replace(problem, seed=seed), role, Mixture(RewardSettings()), follow_ups)


@given(PROBLEMS, st.integers(0, 3), st.integers(0, 10**6), st.sampled_from(ROLES))
def test_no_solution_and_no_answer_can_be_reached_from_a_view(
    problem: WordProblem, follow_ups: int, seed: int, role: str
) -> None:
    game = conversation(problem, follow_ups, seed, role)
    language = word_problems().language
    while not game.is_done:
        view, asked = game.view(role), game.problem
        held = list(reachable(view))
        assert not any(isinstance(each, WordProblem | ProblemGame | Fraction) for each in held)
        shown = {each.text for each in held if isinstance(each, Question)}
        texts = {each for each in held if isinstance(each, str)}
        assert texts == shown | {"what I said"} if game.replies else texts == shown
        prompts = [language.prompt(view, role), *(section.text for section in language.sections(view, role))]
        for line in (*asked.solution, completion_text(asked)):
            assert not any(line in prompt for prompt in prompts)
        assert all(re.search(r"\d = \d", prompt) is None for prompt in prompts)  # no calculation at all
        game.step({role: ("what I said",)})
    assert len(game.replies) == follow_ups + 1


def test_the_walk_over_a_view_would_find_an_answer() -> None:
    problem = generate("buying", 1, 0)
    careless: Any = dataclasses.replace(Conversation((problem.question,)), replies=(problem,))
    assert any(isinstance(each, Fraction) for each in reachable(careless))


def test_views_are_plain_data_equal_for_equal_situations() -> None:
    one, two = (conversation(generate("ages", 2, 5), 1, 3) for _ in range(2))
    for game in (one, two):
        game.step({ROLES[0]: ("4",)})
    assert one.view(ROLES[0]) == two.view(ROLES[0])
    assert hash(one.view(ROLES[0])) == hash(two.view(ROLES[0]))
    assert one.view(ROLES[0]).replies == ("4",)
    assert len(one.view(ROLES[0]).questions) == 2


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("follow_ups", [0, 1, 5, 8])
@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_parts_times_weights_are_the_mixture_s_mean_total(
    reward: dict[str, float], follow_ups: int, scale: float
) -> None:
    world = word_problems(follow_ups=follow_ups, reward=reward, reward_scale=scale)
    mixture = Mixture(RewardSettings(weights=reward, scale=scale))
    assert sum(world.reward_weights.values()) == pytest.approx(scale)
    for seed in range(5):
        game = world.new_game(world.starts().draw("final_answer", seed), "final_answer", seed)
        paid, totals = 0.0, []
        while not game.is_done:
            text = completion_text(game.problem) if (len(game.replies) + seed) % 2 else "<think>no</think> 17"
            totals.append(mixture(text, game.problem).total)
            paid += weigh(game.step({"final_answer": (text,)}).parts["final_answer"], world.reward_weights)
        assert paid == pytest.approx(sum(totals) / len(totals))
        assert not game.result().parts


@pytest.mark.parametrize("follow_ups", range(9))
def test_a_conversation_that_is_right_throughout_counts_as_right(follow_ups: int) -> None:
    """Nine ninths are one: the curriculum and evaluations ask for 1, not for nearly 1."""
    game = conversation(generate("buying", 1, follow_ups), follow_ups, 0)
    while not game.is_done:
        game.step({ROLES[0]: (completion_text(game.problem),)})
    outcome = game.result().outcomes[ROLES[0]]
    assert outcome["exact_match"] == outcome["form"] == outcome["exact_number"] == 1
    game = conversation(generate("buying", 1, follow_ups), follow_ups, 0)
    while not game.is_done:
        game.step({ROLES[0]: (completion_text(game.problem) if game.replies else "no",)})
    assert game.result().outcomes[ROLES[0]]["exact_match"] == follow_ups / (follow_ups + 1)


@pytest.mark.parametrize("completion", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_hostile_completions_have_outcomes_in_range(completion: str) -> None:
    reward = {"exact_number": 1.0, "form": 1.0, "similarity": 1.0, "unique_characters": 1.0}
    world = word_problems(follow_ups=1, reward=reward)
    game = world.new_game("ages/2/5", "final_answer", 1)
    view = game.view("final_answer")
    while not game.is_done:
        answer = world.language.parse(completion, view, "final_answer")
        step = game.step({"final_answer": answer.actions})
        assert all(0 <= value <= 1 for value in step.parts["final_answer"].values())
        assert step.defects == 0
    result = game.result()
    outcome = result.outcomes["final_answer"]
    assert outcome.pop("characters") == len(completion)
    assert all(0 <= value <= 1 for value in outcome.values())
    assert {measure.outcome for measure in world.measured.trained} <= outcome.keys()
    assert result.standing is None
    if result.notes["final_answer"]:
        Fraction(result.notes["final_answer"])


def test_no_completion_counts_as_an_empty_one() -> None:
    game = conversation(generate("ages", 1, 1), 0, 0)
    assert game.step({ROLES[0]: ()}).parts == {ROLES[0]: {"exact_number": 0, "form": 0}}
    assert game.view(ROLES[0]).replies == ("",)
    assert game.result().notes == {ROLES[0]: ""}


def test_follow_ups_are_drawn_by_the_game_s_seed_and_ask_about_the_answer() -> None:
    problem = generate("percentages", 2, 8)
    games = [conversation(problem, 3, seed) for seed in range(20)]
    assert [each.question for each in games[4].problems] == [
        each.question for each in conversation(problem, 3, 4).problems
    ]
    assert len({game.problems[1].question for game in games}) > 5
    for game in games:
        assert len(game.problems) == 4
        for before, after in zip(game.problems, game.problems[1:], strict=False):
            assert (
                after.solution[-1]
                .split(": ")[1]
                .startswith(completion_text(before).split("<response>")[1].split("<")[0])
            )
            assert "answer" in after.question.text


def test_the_note_is_the_last_answer_exactly() -> None:
    game = conversation(generate("ages", 1, 1), 1, 0)
    game.step({ROLES[0]: ("<response>5</response>",)})
    game.step({ROLES[0]: ("<response>-2.50</response>",)})
    assert game.result().notes == {ROLES[0]: "-2.5"}


def test_the_teacher_is_right_and_in_form_whatever_is_asked() -> None:
    for seed, family in enumerate(FAMILIES):
        game = conversation(generate(family, 3, seed), 2, seed)
        teacher = WorkedSolutions(game)
        while not game.is_done:
            game.step({ROLES[0]: teacher.actions(game.view(ROLES[0]), ROLES[0], 0)})
        outcome = game.result().outcomes[ROLES[0]]
        assert outcome["exact_match"] == outcome["form"] == 1


def test_facts_are_known_before_and_name_the_question_and_not_the_role() -> None:
    world = word_problems()
    start = world.starts().draw("final_answer", 3)
    facts = [world.new_game(start, role, seed).start_facts(role) for role in world.roles for seed in (1, 2)]
    assert all(each == facts[0] for each in facts)
    assert tuple(facts[0]) == world.episode_facts
    game = world.new_game(start, "final_answer", 1)
    game.step({"final_answer": ("anything",)})
    assert game.start_facts("final_answer") == facts[0]
    other = world.new_game(world.starts().draw("final_answer", 4), "final_answer", 1)
    assert other.start_facts("final_answer")["question"] != facts[0]["question"]
