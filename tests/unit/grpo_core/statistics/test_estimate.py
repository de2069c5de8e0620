from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_core.statistics.estimate import CENTERS, Estimate, difference
from grpo_core.statistics.means import stratified_mean

bounded = st.lists(st.lists(st.sampled_from([0, 1, 4, 17, 34]), min_size=1, max_size=4), min_size=1, max_size=7)


@given(bounded, bounded)
def test_the_interval_of_a_difference_stays_between_the_differences_of_the_ends(
    first: list[list[int]], second: list[list[int]]
) -> None:
    before, after = (
        stratified_mean({str(number): games for number, games in enumerate(values)}, CENTERS)
        for values in (first, second)
    )
    assert before is not None
    assert after is not None
    found = difference(before, after)
    assert found.mean == after.mean - before.mean
    if before.interval is None or after.interval is None:
        assert found.interval is None
        return
    assert found.interval is not None
    assert after.interval[0] - before.interval[1] - 1e-9 <= found.interval[0] <= found.mean + 1e-9
    assert found.mean - 1e-9 <= found.interval[1] <= after.interval[1] - before.interval[0] + 1e-9


def test_the_interval_of_a_difference_of_symmetric_ones_is_the_usual_one() -> None:
    found = difference(Estimate(4.0, 3.7, 4.3, 10), Estimate(6.0, 5.6, 6.4, 20))
    assert (found.mean, found.n) == (2.0, 30)
    assert found.interval == pytest.approx((1.5, 2.5))


@given(st.floats(-1, 1), st.floats(0, 3), st.floats(0, 3), st.floats(0, 3), st.floats(0, 3))
def test_correlated_estimates_differ_between_the_differences_of_their_ends(
    correlation: float, a: float, b: float, c: float, d: float
) -> None:
    before, after = Estimate(4.0, 4 - a, 4 + b, 10), Estimate(6.0, 6 - c, 6 + d, 20)
    found = difference(before, after, correlation=correlation)
    assert found.interval is not None
    assert 2 - c - b - 1e-9 <= found.interval[0] <= 2 + 1e-9
    assert 2 - 1e-9 <= found.interval[1] <= 2 + d + a + 1e-9


def test_estimates_that_rise_together_differ_by_less() -> None:
    before, after = Estimate(4.0, 3.7, 4.3, 10), Estimate(6.0, 5.6, 6.4, 20)
    variance = 0.3**2 + 0.4**2 - 2 * 0.5 * 0.3 * 0.4  # of a difference
    assert difference(before, after, correlation=0.5).interval == pytest.approx((2 - variance**0.5, 2 + variance**0.5))
    assert difference(before, after, correlation=1.0).interval == pytest.approx((1.9, 2.1))


def test_an_estimate_excludes_what_is_outside_its_interval() -> None:
    estimate = Estimate(1.0, 0.5, 1.5, 3)
    assert [estimate.excludes(value) for value in (0.4, 0.5, 1.0, 1.5, 1.6)] == [True, False, False, False, True]
    assert not Estimate(1.0, None, None, 1).excludes(7.0)
