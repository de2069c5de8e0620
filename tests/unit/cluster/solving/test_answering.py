from __future__ import annotations

import asyncio
from collections import Counter
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cluster.solving.agents import Agents, Completion
from cluster.solving.answering import AgentAnswer, Asking, Solved, solve_all, winner
from cluster.solving.policy_folder import find_policy
from cluster.solving.questions import asked
from cluster.solving.scoring import document
from services.environments.word_problems.answers import final_answer
from tests.unit.cluster.solving.policies import QUESTION, VARIANTS, write_run

ANSWERS = st.lists(st.none() | st.integers(1, 3).map(Fraction), min_size=1, max_size=7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"))


def answered(folder: Path, asking: Asking, *texts: str) -> list[Solved]:
    return asyncio.run(solve_all(Agents(find_policy(folder)), [asked(text, "24") for text in texts], asking))


@given(ANSWERS)
def test_the_winner_has_the_most_votes_and_of_equals_comes_first(answers: list[Fraction | None]) -> None:
    votes = Counter(answer for answer in answers if answer is not None)
    if not votes:
        assert winner(answers) == 0
        return
    leaders = [place for place, answer in enumerate(answers) if votes.get(answer, 0) == max(votes.values())]  # type: ignore[arg-type]
    assert winner(answers) == leaders[0]


def test_ties_and_silence() -> None:
    two, three = Fraction(2), Fraction(3)
    assert winner([None, three, two, two, three]) == 1
    assert winner([None, three, two, two]) == 2
    assert winner([None, None]) == 0
    assert winner([Fraction("0.5"), two, Fraction(1, 2)]) == 0


def test_one_asks_the_first_variant_alone(folder: Path) -> None:
    (solved,) = answered(folder, Asking("one", samples=3), QUESTION)
    assert [agent.variant for agent in solved.agents] == [VARIANTS[0]]
    assert solved.chosen == solved.agents[0].completion
    assert (solved.diversity, solved.samples_diversity) == (None, None)


def test_all_modes_ask_the_same_agents(folder: Path) -> None:
    found = {mode: answered(folder, Asking(mode, samples=4), QUESTION)[0] for mode in ("vote", "consensus", "average")}
    assert [agent.variant for agent in found["vote"].agents] == list(VARIANTS)
    for solved in found.values():
        texts = [agent.completion.text for agent in solved.agents]
        assert texts == [agent.completion.text for agent in found["vote"].agents]
    greedy = [agent.completion for agent in found["vote"].agents]
    assert found["vote"].chosen == greedy[winner([each.answer for each in greedy])]
    assert found["average"].chosen.logprobs is not None


def test_the_consensus_is_the_agent_most_like_the_others(folder: Path) -> None:
    (solved,) = answered(folder, Asking("consensus", samples=4), QUESTION)
    agents, question = Agents(find_policy(folder)), asked(QUESTION).question
    states = [agents.read(question, each.variant, each.completion.ids).state.double() for each in solved.agents]
    means = [
        sum(float(torch.cosine_similarity(one, other, dim=0)) for other in states if other is not one) / 3
        for one in states
    ]
    assert solved.chosen == solved.agents[means.index(max(means))].completion


def test_agents_and_samples_of_one_are_compared_at_one_temperature(folder: Path) -> None:
    (solved,) = answered(folder, Asking("vote", samples=4), QUESTION)
    agents, question = Agents(find_policy(folder)), asked(QUESTION).question

    def cosine(written: list[tuple[str, Completion]]) -> float:
        states = [agents.read(question, variant, each.ids).state.double() for variant, each in written]
        pairs = list(combinations(states, 2))
        return sum(float(torch.cosine_similarity(one, other, dim=0)) for one, other in pairs) / len(pairs)

    of_agents, of_samples = solved.diversity, solved.samples_diversity
    assert of_agents is not None
    assert of_samples is not None
    first = solved.agents[0]
    assert of_agents.mean_cosine == pytest.approx(cosine([(a.variant, a.samples[0]) for a in solved.agents]), abs=1e-6)
    assert of_samples.mean_cosine == pytest.approx(cosine([(first.variant, each) for each in first.samples]), abs=1e-6)
    assert 1 <= of_agents.effective_rank <= 4


def test_answers_do_not_depend_on_other_questions_and_follow_the_seed(folder: Path) -> None:
    other = "A bus has 36 seats, and 21 are taken. How many seats are free?"
    asking = Asking("vote", samples=2, seed=9)
    (alone,) = answered(folder, asking, QUESTION)
    beside = answered(folder, asking, other, QUESTION)[1]
    assert [agent.samples for agent in alone.agents] == [agent.samples for agent in beside.agents]
    (another,) = answered(folder, Asking("vote", samples=2, seed=10), QUESTION)
    assert [agent.samples for agent in alone.agents] != [agent.samples for agent in another.agents]


def test_own_answers_are_sampled_at_their_temperature_and_leave_the_samples_as_they_are(folder: Path) -> None:
    greedy, drawn, again = (
        answered(folder, Asking("vote", samples=2, answer_temperature=temperature), QUESTION)[0]
        for temperature in (0.0, 1.0, 1.0)
    )
    own = [[agent.completion.ids for agent in solved.agents] for solved in (greedy, drawn, again)]
    assert own[1] == own[2] != own[0]
    assert all(agent.completion not in agent.samples for agent in drawn.agents)
    assert [agent.samples for agent in drawn.agents] == [agent.samples for agent in greedy.agents]
    assert drawn.chosen == drawn.agents[winner([agent.completion.answer for agent in drawn.agents])].completion


def test_fewer_samples_than_agents_are_not_compared(folder: Path) -> None:
    (solved,) = answered(folder, Asking("vote", samples=3), QUESTION)
    assert (solved.diversity, solved.samples_diversity) == (None, None)


def completion(text: str) -> Completion:
    return Completion((1,), text, final_answer(text), True)


def test_a_document_scores_by_hand() -> None:
    samples = tuple(completion(f"<response>{number}</response>") for number in ("24", "7", "24", "none"))
    agent = AgentAnswer("final_answer", completion("<response>24.0</response>"), 1.5, None, samples)
    silent = AgentAnswer("step_by_step", completion("no idea"), 2.5, 3.0, ())
    solved = Solved(asked(QUESTION, "15 + 9 = 24\n#### 24"), "vote", agent.completion, (agent, silent), None, None)
    found = document(solved)
    assert (found["answer"], found["right"], found["exact_match"], found["truth"]) == ("24", True, 1.0, "24")
    first, second = found["agents"]
    assert first["samples"] == {
        "count": 4, "answers": ["24", "7", "24", None], "majority": "24", "majority_share": 0.5,
        "pass_at_1": 0.5, "pass_at_4": 1.0, "maj_at_4": 1.0,
    }  # fmt: skip
    assert 0 < found["similarity"] < 1
    assert (second["answer"], second["right"], second["reference_perplexity"]) == (None, False, 3.0)
    assert "samples" not in second
    unknown = document(Solved(asked(QUESTION), "vote", silent.completion, (agent,), None, None))
    assert unknown["answer"] is None
    assert not {"right", "truth", "similarity", "exact_match"} & unknown.keys()
    assert not {"pass_at_1", "maj_at_4"} & unknown["agents"][0]["samples"].keys()
