"""95% intervals hold the truth in 93 to 97% of simulated games; more cases, also the bad ones: tests/soak."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.grpo_core.support.coverage import (
    UNEQUAL,
    Case,
    Looks,
    compared,
    coverage,
    even,
    holds,
    mean,
    mixed,
    pair_estimator,
    rate,
)
from tests.unit.grpo_core.support.simulated_games import play_pairs

REPETITIONS = 2000  # a standard error of half a point
FEW_EVENTS = (0.97, 1.0)  # too few outcomes for less
AT_STOP = (0.97, 1.0)  # the intervals of all looks together hold it with 95%, so one alone with more

CASES = [
    Case("mean, 10 games", mean(1.0, even(10))),
    Case("mean, 10 to 100 games", mean(3.0, UNEQUAL)),
    Case("rates of 2 percent, 10 games", rate((0.02,) * 7, even(10))),
    Case("rates of 0 to 10 percent, 30 games", rate((0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.1), even(30))),
    Case("rates of 10 percent, 10 to 100 games", rate((0.1,) * 7, UNEQUAL)),
    Case("paired centres, 10 games, half of the tables tied", compared("centers", 2.0, even(10), shared=0.5)),
    Case("paired solos, 2 and 9 percent, 10 games", compared("solos", 2.0, even(10), shared=0.0)),
    Case("paired solos, 10 games, nine of ten tied", compared("solos", 1.0, even(10), shared=0.9), FEW_EVENTS),
    Case("better at the same table", compared("better", 2.0, even(10), shared=0.5)),
    Case("difference of means, own games", compared("centers", 1.3, even(10))),
    Case("difference of solo rates, own games", compared("solos", 3.0, even(10))),
    Case("better, own games", compared("better", 3.0, even(10))),
    Case("mean at mixed tables", mixed("mean", (1.0, 1.0, 2.0), 30)),
    Case("solo rate at mixed tables", mixed("rate", (1.0, 2.0), 40)),
    Case("difference at mixed tables", mixed("difference", (1.0, 2.0), 20)),
    Case("Pocock, all looks", Looks("pocock", 1.5, 0.3, most=12, looks=3)),
    Case("O'Brien and Fleming, stopped, no difference", Looks("obrien_fleming", 1.0, 0.0, 12, 3, at_stop=True)),
    Case("stopped early for a difference", Looks("obrien_fleming", 3.0, 0.0, 12, 3, at_stop=True), AT_STOP),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_intervals_hold_the_truth_as_often_as_they_say(case: Case) -> None:
    held, with_interval = coverage(case, REPETITIONS)
    assert case.band[0] <= held <= case.band[1]
    assert with_interval > 0.99


def test_looking_three_times_without_a_plan_is_found_out() -> None:
    def plain_intervals(repetitions: int, rng: np.random.Generator) -> Iterator[bool]:
        before, after = play_pairs(1.0, 0.0, even(12), repetitions, rng)
        for row in range(repetitions):
            looks = (pair_estimator("centers", before, after, row, games)(0.95) for games in (4, 8, 12))
            yield all(holds(estimate, 0.0) for estimate in looks)

    held, _ = coverage(Case("each look as if it were the only one", plain_intervals), REPETITIONS)
    assert held < 0.91
