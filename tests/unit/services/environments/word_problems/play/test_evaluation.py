"""Which problems evaluations ask, and what their rows say, against a slow count of every choice of samples."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from services.environments.evaluation import EvaluationResult
from services.environments.word_problems.instructions import ROLES
from services.environments.word_problems.play.evaluation import problem_row
from services.environments.word_problems.play.starts import problem_of
from services.environments.word_problems.problem import completion_text, split_of
from tests.unit.services.environments.word_problems.play.worlds import VARIANTS, evaluation, word_problems

K = 8


@pytest.fixture
def gsm8k(tmp_path: Path) -> str:
    rows = [{"question": f"What is {n} and 1?", "answer": f"#### {n + 1}"} for n in range(9)]
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_evaluations_ask_held_out_questions_alone() -> None:
    world = word_problems(difficulties=(1, 3), curriculum=True)
    for against in ("held_out", "unseen_wording"):
        games = world.evaluation_games(evaluation(problems=60), against, 7)
        assert {split_of(problem_of(game.start, None).question) for game in games} == {"held_out"}
        assert len({game.start for game in games}) > 55


def test_all_candidates_get_the_same_games_and_other_seeds_others() -> None:
    settings = evaluation(problems=30)
    games = word_problems().evaluation_games(settings, "held_out", 7)
    assert games == word_problems(reward={"form": 1.0}).evaluation_games(settings, "held_out", 7)
    assert {game.start for game in games}.isdisjoint(
        game.start for game in word_problems().evaluation_games(settings, "held_out", 8)
    )


def test_each_problem_is_answered_once_greedily_and_then_in_samples_of_their_own_seeds() -> None:
    settings = evaluation(problems=30, samples=3)
    games = word_problems().evaluation_games(settings, "held_out", 7)
    assert len(games) == settings.role_games == 30 * 4
    assert [game.number for game in games] == list(range(len(games)))
    assert len({game.seed for game in games}) == len(games)
    for first in range(0, len(games), 4):
        asked = games[first : first + 4]
        assert len({(game.start, game.role, game.against) for game in asked}) == 1
        assert [game.temperature for game in asked] == [0.0, None, None, None]
    assert {game.role for game in games} == set(VARIANTS)


def test_unseen_wording_asks_the_same_questions_under_instructions_that_are_not_trained() -> None:
    world, settings = word_problems(families=("ages", "buying")), evaluation(problems=40)
    seen = world.evaluation_games(settings, "held_out", 7)
    unseen = world.evaluation_games(settings, "unseen_wording", 7)
    assert [game.start for game in seen] == [game.start for game in unseen]
    assert {game.role for game in unseen} == set(ROLES) - set(VARIANTS)
    evaluated = world.as_evaluated(settings)
    for game in unseen[::3]:
        played = evaluated.new_game(game.start, game.role, game.seed)
        played.step({game.role: (completion_text(played.problem),)})
        assert played.is_done
        assert played.result().outcomes[game.role]["exact_match"] == 1


def test_follow_ups_are_trained_and_not_evaluated() -> None:
    world = word_problems(follow_ups=3)
    start = world.starts().draw(VARIANTS[0], 1)
    assert len(world.new_game(start, VARIANTS[0], 1).problems) == 4
    assert len(world.as_evaluated(evaluation()).new_game(start, VARIANTS[0], 1).problems) == 1
    assert len(world.new_game(start, VARIANTS[0], 1).problems) == 4


def test_rows_of_gsm8k_come_each_once_before_any_comes_again(gsm8k: str) -> None:
    world = word_problems()
    settings = evaluation(problems=9, samples=1, against=("gsm8k",), gsm8k=gsm8k)
    world.check_evaluation(settings)
    games = world.evaluation_games(settings, "gsm8k", 3)
    assert sorted({game.start for game in games}) == [f"gsm8k/0/{row}" for row in range(9)]
    more = world.evaluation_games(evaluation(problems=20, samples=1, gsm8k=gsm8k), "gsm8k", 3)
    assert [game.start for game in more[: len(games)]] == [game.start for game in games]
    played = world.as_evaluated(settings).new_game("gsm8k/0/4", VARIANTS[0], 1)
    assert played.problem.answer == 5
    assert played.start_facts(VARIANTS[0])["family"] == "gsm8k"
    with pytest.raises(ValueError, match="no file of it is named"):
        world.new_game("gsm8k/0/4", VARIANTS[0], 1)


@pytest.mark.parametrize(
    ("game", "keys", "reason"),
    [
        (
            {},
            {"against": ("heldout",)},
            "evaluation.against: no problem set is called 'heldout'; there are held_out, unseen_",
        ),
        ({}, {"final_against": ("x",)}, "evaluation.final_against: no problem set is called 'x'"),
        ({}, {"against": ("gsm8k",)}, "evaluation.against: the set gsm8k needs evaluation.gsm8k, a file of its"),
        ({"gsm8k": "train.jsonl"}, {"final_against": ("gsm8k",)}, "evaluation.final_against: the set gsm8k needs"),
        ({"variants": ROLES}, {"against": ("unseen_wording",)}, "evaluation.against: game.variants trains all of them"),
    ],
)
def test_problem_sets_that_cannot_be_asked_are_refused(game: Any, keys: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^[\x20-\x7e]+$") as caught:
        word_problems(**game).check_evaluation(evaluation(**keys))
    assert str(caught.value).startswith(reason)


# --- rows


def result(number: int, note: str, right: bool, role: str = VARIANTS[0]) -> EvaluationResult:
    return EvaluationResult(role, number, {"exact_match": float(right), "form": float(note != "")}, note)


def enumerated_pass(right: list[bool], k: int) -> Fraction:
    subsets = list(combinations(right, k))
    return Fraction(sum(map(any, subsets)), len(subsets))


def enumerated_majority(notes: list[str], truth: str, k: int) -> Fraction:
    """The mean over all choices of k samples, where those that tie share the vote."""
    wins, subsets = Fraction(0), list(combinations(notes, k))
    for subset in subsets:
        votes = [note for note in subset if note]
        most = max((votes.count(note) for note in votes), default=0)
        tied = {note for note in votes if votes.count(note) == most}
        wins += Fraction(truth in tied, max(1, len(tied)))
    return wins / len(subsets)


@pytest.mark.parametrize("samples", [8, 10])
@pytest.mark.parametrize("seed", range(10))
def test_a_row_has_what_enumeration_finds(seed: int, samples: int) -> None:
    rng = random.Random(seed)
    results: dict[str, list[EvaluationResult]] = {role: [] for role in VARIANTS}
    expected: dict[str, dict[str, list[Fraction]]] = {role: {} for role in VARIANTS}
    for problem in range(12):
        role = VARIANTS[problem % 2]
        truth, pool = "4", ["4", "5", "1/3", "-2.5", ""]
        notes = [rng.choice(pool[: rng.randint(1, 5)]) for _ in range(samples + 1)]
        right = [note == truth for note in notes]
        results[role] += [
            result(problem * (samples + 1) + answer, note, right[answer], role) for answer, note in enumerate(notes)
        ]
        found = {
            "exact_match": Fraction(right[0]),
            "pass_at_1": enumerated_pass(right[1:], 1),
            "pass_at_8": enumerated_pass(right[1:], K),
            "maj_at_8": enumerated_majority(notes[1:], truth, K),
            "form": Fraction(sum(note != "" for note in notes), len(notes)),
        }
        for name, value in found.items():
            expected[role].setdefault(name, []).append(value)
    for own in results.values():
        rng.shuffle(own)
    world = word_problems()
    flat = [each for own in results.values() for each in own]
    rng.shuffle(flat)
    row = world.summarize(evaluation(problems=12, samples=samples), flat)
    assert row["games"] == 12 * (samples + 1)
    assert row["by_variant"].keys() == set(VARIANTS)
    for name in ("exact_match", "pass_at_1", "pass_at_8", "maj_at_8", "form"):
        by_role = {role: sum(values[name]) / len(values[name]) for role, values in expected.items()}
        assert row[name] == pytest.approx(float(sum(by_role.values()) / 2))  # each variant has the same weight
        low, high = row[f"{name}_ci95"]
        assert 0 <= low <= row[name] <= high <= 1
        for role, value in by_role.items():
            assert row["by_variant"][role][name] == pytest.approx(float(value))
    assert {measure.row_name for measure in world.measures} <= row.keys()
    json.dumps(row, allow_nan=False)


def test_fewer_than_eight_samples_have_no_figures_of_eight() -> None:
    row = problem_row({"a": [result(0, "4", True), result(1, "5", False)]}, 1)
    assert (row["exact_match"], row["pass_at_1"]) == (1, 0)
    assert row["pass_at_8"] is row["maj_at_8"] is row["maj_at_8_ci95"] is None


def test_completions_without_an_answer_have_no_majority() -> None:
    row = problem_row({"a": [result(number, "", False) for number in range(K + 1)]}, K)
    assert row["maj_at_8"] == row["pass_at_8"] == row["form"] == 0


def test_a_row_over_real_answers_counts_them_right() -> None:
    world, settings = word_problems(), evaluation(problems=8, samples=2)
    evaluated, results = world.as_evaluated(settings), []
    for game in world.evaluation_games(settings, "held_out", 5):
        played = evaluated.new_game(game.start, game.role, game.seed)
        text = completion_text(played.problem) if game.number % 3 else "I do not know"
        played.step({game.role: (text,)})
        ended = played.result()
        results.append(EvaluationResult(game.role, game.number, ended.outcomes[game.role], ended.notes[game.role]))
    row = world.summarize(settings, results)
    assert row["exact_match"] == 0  # the greedy ones are those that did not know
    assert row["pass_at_1"] == 1
    assert row["form"] == pytest.approx(2 / 3)
    assert world.evaluation_facts(settings) == {"problems": 8, "samples": 2}


def test_a_saved_conversation_has_its_true_answers() -> None:
    world = word_problems()
    game = world.new_game("ages/2/5", "final_answer", 1)
    game.step({"final_answer": ("no idea",)})
    document = json.loads(world.saved_game(game, None, 1, "abc", "0.1"))
    [asked] = document["questions"]
    assert asked["question"] == game.problems[0].question.text
    assert asked["reply"] == "no idea"
    assert Fraction(asked["answer"]) == game.problems[0].answer
    assert document["player"] is None
