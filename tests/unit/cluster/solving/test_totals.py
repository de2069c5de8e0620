from __future__ import annotations

import math

import pytest

from cluster.solving.agents import Completion
from cluster.solving.answering import AgentAnswer, Asking, Diversity, Solved
from cluster.solving.lines import answer_lines, totals_lines
from cluster.solving.questions import asked
from cluster.solving.totals import totals_document, totals_of
from grpo_core.statistics.paired import paired_difference
from grpo_core.statistics.rates import wilson_score
from services.environments.word_problems.answers import final_answer


def completion(number: str) -> Completion:
    text = f"<response>{number}</response>"
    return Completion((1,), text, final_answer(text), True)


def solved(
    chosen: str, agents: list[str], samples: list[str], cosines: tuple[float, float], truth: str | None = "5"
) -> Solved:
    own = tuple(map(completion, samples))
    each = tuple(
        AgentAnswer(f"agent_{place}", completion(number), 2.0 + place, None, own) for place, number in enumerate(agents)
    )
    one, other = (Diversity(cosine, 2 - cosine) for cosine in cosines)
    return Solved(asked("How many?", truth), "vote", completion(chosen), each, one, other)


ASKING = Asking()
FOUND = [
    solved("5", ["5", "5", "4"], ["5", "5", "1"], (0.9, 0.8)),
    solved("5", ["5", "4", "5"], ["1", "2", "3"], (0.95, 0.8)),
    solved("4", ["4", "4", "5"], ["5", "5", "5"], (0.9, 0.9)),
    solved("none", ["none", "none", "none"], ["5", "2", "none"], (1.0, 0.7)),
]


def test_totals_equal_those_by_hand() -> None:
    totals = totals_of(FOUND, ASKING)
    assert (totals.questions, totals.with_truth, totals.without_answer) == (4, 4, 1)
    assert totals.right is not None
    assert totals.right.mean == 0.5
    assert totals.right.interval == pytest.approx(wilson_score(0.5, 3), abs=0.05)  # 4 questions, of sample variance
    assert {name: rate.mean for name, rate in totals.by_variant.items()} == {
        "agent_0": 0.5, "agent_1": 0.25, "agent_2": 0.5,
    }  # fmt: skip
    assert totals.gain is not None
    assert totals.gain.first.mean == pytest.approx((2 / 3 + 2 / 3 + 1 / 3) / 4)
    assert totals.gain.difference == paired_difference([2 / 3, 2 / 3, 1 / 3, 0], [1, 1, 0, 0], (-1, 1))
    assert totals.pass_at_1 is not None
    assert totals.pass_at_1.mean == pytest.approx((2 / 3 + 0 + 1 + 1 / 3) / 4)
    assert totals.pass_at_k is not None
    assert totals.pass_at_k.mean == pytest.approx(3 / 4)
    assert totals.maj_at_k is not None
    assert totals.maj_at_k.mean == pytest.approx((1 + 0 + 1 + 1 / 2) / 4)
    assert totals.perplexity is not None
    assert totals.perplexity.mean == pytest.approx((2 * 3 * 4) ** (1 / 3))
    assert totals.similarity is None
    assert totals.cosine is not None
    assert totals.cosine.difference.mean == pytest.approx(0.1375)


def test_the_document_has_every_figure_with_its_interval() -> None:
    found = totals_document(totals_of(FOUND, ASKING))
    for name in ("exact_match", "gain_over_single_agent", "pass_at_1", "pass_at_3", "maj_at_3", "perplexity"):
        low, high = found[f"{name}_ci95"]
        assert low <= found[name] <= high
    assert set(found["diversity"]) == {"mean_cosine", "effective_rank"}
    assert found["diversity"]["mean_cosine"]["agents"] > found["diversity"]["mean_cosine"]["samples_of_one_agent"]


def test_the_lines_say_plainly_when_agents_are_no_more_diverse() -> None:
    lines = totals_lines(totals_of(FOUND, ASKING))
    assert (
        lines[-1]
        == "the three agents (a sample each) are no more diverse than three samples of one agent (temperature 1)"
    )
    less = [solved("5", ["5", "4", "5"], ["5"] * 3, (0.9 + 0.01 * place, 0.5)) for place in range(6)]
    assert totals_lines(totals_of(less, Asking(temperature=0.5)))[-1].endswith("(temperature 0.5): they are less")
    more = [solved("5", ["5", "4", "5"], ["5"] * 3, (0.4 + 0.01 * place, 0.9)) for place in range(6)]
    assert totals_lines(totals_of(more, ASKING))[-1].startswith(
        "the three agents (a sample each) are more diverse than"
    )


def test_the_gain_is_said_with_its_uncertainty() -> None:
    def line(found: list[Solved]) -> str:
        return next(line for line in totals_lines(totals_of(found, ASKING)) if "mean single agent" in line)

    assert line(FOUND).endswith("no difference can be told from chance")
    better = [solved("5", ["5", "4", "4"], ["5"], (0.5, 0.5))] * 8 + [solved("5", ["5", "5", "4"], ["5"], (0.5, 0.5))]
    assert line(better).endswith("paired by question: better")
    worse = [solved("4", ["5", "4", "4"], ["5"], (0.5, 0.5))] * 8 + [solved("4", ["5", "5", "4"], ["5"], (0.5, 0.5))]
    assert line(worse).endswith("paired by question: worse")
    assert line(FOUND[:1]).endswith("too few or too equal questions for an interval")


def test_without_true_answers_there_is_nothing_about_right_and_wrong() -> None:
    found = [solved("5", ["5", "4"], ["5", "5"], (0.5 + place / 10, 0.5), truth=None) for place in range(3)]
    totals = totals_of(found, ASKING)
    assert (totals.right, totals.gain, totals.pass_at_1, totals.by_variant) == (None, None, None, {})
    document = totals_document(totals)
    assert "exact_match" not in document
    assert (document["questions"], document["with_truth"]) == (3, 0)
    lines = totals_lines(totals)
    assert lines[0].startswith("3 questions, 0 with a true answer")
    assert not any("pass@" in line or "single agent" in line.split("samples")[0] for line in lines)


def test_one_agent_and_one_question() -> None:
    single = Solved(asked("How many?", "5"), "one", completion("5"), FOUND[0].agents[:1], None, None)
    totals = totals_of([single], ASKING)
    assert (totals.gain, totals.cosine) == (None, None)
    assert totals.pass_at_1 is not None
    assert totals.pass_at_1.interval is None
    assert all(math.isfinite(value) for value in totals_document(totals).values() if isinstance(value, float))
    assert totals_lines(totals)
    assert answer_lines(single)[0] == "one: 5 (right)"


def test_sampled_answers_are_said_to_be_sampled() -> None:
    drawn = Asking(answer_temperature=0.7)
    assert totals_document(totals_of(FOUND, drawn))["answer_temperature"] == 0.7
    assert "answers at temperature 0.7; [95 % intervals]" in totals_lines(totals_of(FOUND, drawn))[0]
    assert "temperature" not in totals_lines(totals_of(FOUND, ASKING))[0]
