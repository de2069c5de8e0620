"""Advantage methods on batches small enough to compute by hand."""

from __future__ import annotations

import numpy as np
import pytest

from grpo_core.advantages.grouping import Sample
from grpo_core.advantages.method import BATCH_MEAN, NO_BASELINE, AdvantageMethod, reference_advantages


def sample(role: str, episode: int, **facts: int) -> Sample:
    return Sample(role, episode, {"country": role, **facts})


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (NO_BASELINE, [1, 3, 10, 20]),
        (BATCH_MEAN, [-7.5, -5.5, 1.5, 11.5]),
        (AdvantageMethod("batch", leave_one_out=True), [-10, -22 / 3, 2, 46 / 3]),
        (AdvantageMethod(keys=("country",)), [-1, 1, -5, 5]),
        (AdvantageMethod(keys=("country",), leave_one_out=True), [-2, 2, -10, 10]),
        (AdvantageMethod(keys=("country+table",)), [-1, 1, -5, 5]),  # every table is too small: the country decides
    ],
    ids=str,
)
def test_advantages_are_returns_minus_the_baseline(method: AdvantageMethod, expected: list[float]) -> None:
    roles = ("FRANCE", "FRANCE", "ITALY", "ITALY")
    samples = [sample(role, number, table=number) for number, role in enumerate(roles)]
    returns = np.array([1, 3, 10, 20], np.float32)
    assert method.advantages(samples, returns) == pytest.approx(expected)


def test_shrinkage_moves_baselines_of_small_groups_towards_their_parents() -> None:
    samples = [sample("FRANCE", number, table=number // 2) for number in range(8)]
    returns = np.array([0, 1, 1, 4, 5, 2, 3, 8], np.float32)
    own, parent, shrunk = (
        method.advantages(samples, returns)
        for method in (
            AdvantageMethod(keys=("country+table", "country")),
            AdvantageMethod(keys=("country",)),
            AdvantageMethod(keys=("country+table", "country"), shrinkage=True),
        )
    )
    assert ((np.minimum(own, parent) <= shrunk) & (shrunk <= np.maximum(own, parent))).all()
    assert (shrunk != own).any()
    assert (shrunk != parent).any()


def test_methods_have_names_for_display() -> None:
    assert str(NO_BASELINE) == "none"
    assert str(AdvantageMethod("batch", leave_one_out=True)) == "batch, left-out"
    assert str(AdvantageMethod(keys=("country+fork", "country"), shrinkage=True)) == "country+fork < country, shrunk"


def test_reference_advantages_leave_out_the_whole_episode() -> None:
    samples = [sample("FRANCE", 0), sample("FRANCE", 0), sample("FRANCE", 1), sample("FRANCE", 2)]
    returns = np.array([1, 2, 6, 8], np.float32)
    # The baseline of episode 0 is the mean of 6 and 8; both turns of episode 0 are in the baseline of the others.
    assert reference_advantages(("country",), samples, returns, min_group_size=2).tolist() == [
        1 - 7,
        2 - 7,
        pytest.approx(6 - 11 / 3),
        pytest.approx(8 - 3),
    ]
