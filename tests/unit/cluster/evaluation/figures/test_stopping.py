"""When an evaluation stops: at a planned look, once all that is watched is known well enough."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cluster.errors import RunError
from cluster.evaluation.figures.stopping import FIXED, Stopping, look_after_look
from grpo_core.statistics.estimate import Estimate
from services.environments.diplomacy.measures.definitions import EVALUATED

PLANNED = 20


class Evaluation:
    """Records which rounds are played, and estimates whose half width falls with their number."""

    def __init__(self, means: Sequence[float] = (0.0,)) -> None:
        self.played: list[tuple[int, int]] = []
        self.levels: list[float] = []
        self.means = means

    def play(self, first: int, end: int) -> None:
        self.played.append((first, end))

    def estimates(self, level: float) -> list[Estimate | None]:
        self.levels.append(level)
        half = 10 / self.played[-1][1]
        return [Estimate(mean, mean - half, mean + half, self.played[-1][1]) for mean in self.means]


def test_without_a_rule_all_rounds_are_played_at_once() -> None:
    evaluation = Evaluation()
    assert look_after_look(PLANNED, None, evaluation.play, evaluation.estimates) == FIXED
    assert evaluation.played == [(0, PLANNED)]
    assert not evaluation.levels


def test_it_stops_at_the_first_look_that_is_precise_enough() -> None:
    evaluation = Evaluation()
    look = look_after_look(PLANNED, Stopping("any", half_width=1.0), evaluation.play, evaluation.estimates)
    assert evaluation.played == [(0, 4), (4, 8), (8, 12)]
    assert (look.number, look.looks) == (3, 5)
    assert look.level == evaluation.levels[-1]
    assert evaluation.levels == sorted(evaluation.levels, reverse=True)  # early looks are stricter
    assert all(0.95 < level < 1 for level in evaluation.levels)


def test_all_that_is_watched_has_to_be_clear() -> None:
    rule = Stopping("any", excludes_zero=True)
    clear = Evaluation(means=(5.0, 9.0))
    assert look_after_look(PLANNED, rule, clear.play, clear.estimates).number == 1
    later = Evaluation(means=(1.1, 9.0))
    assert look_after_look(PLANNED, rule, later.play, later.estimates).number == 3
    never = Evaluation(means=(0.0, 9.0))
    assert look_after_look(PLANNED, rule, never.play, never.estimates).number == 5
    assert never.played[-1] == (16, PLANNED)


def test_fewer_rounds_have_fewer_looks() -> None:
    evaluation = Evaluation()
    look = look_after_look(2, Stopping("any", half_width=0.1), evaluation.play, evaluation.estimates)
    assert (look.number, look.looks) == (2, 2)
    assert evaluation.played == [(0, 1), (1, 2)]


def test_an_unknown_measure_is_named_with_those_that_there_are() -> None:
    assert Stopping("solo_rate").found(EVALUATED).outcome == "solo"
    with pytest.raises(RunError, match="no measure is called 'solos'; there are mean_centers, solo_rate, "):
        Stopping("solos").found(EVALUATED)
