from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from grpo_core.statistics.estimate import Estimate
from grpo_core.statistics.means import stratified_mean
from grpo_core.statistics.paired import stratified_paired_difference
from grpo_core.statistics.paired_rates import stratified_net_rate
from grpo_core.statistics.significance import LEAST_P, holm, p_value


def test_p_values_of_means_are_those_of_scipys_t_tests() -> None:
    rng = np.random.default_rng(4)
    for shift in (0.0, 0.3, 1.0, 2.0):
        before, after = rng.normal(size=25), rng.normal(shift, 1, size=25)
        one = {"a": before.tolist()}, {"a": after.tolist()}
        paired = p_value(lambda level, one=one: stratified_paired_difference(*one, level=level))
        assert paired == pytest.approx(stats.ttest_rel(before, after).pvalue, rel=1e-6)
        mean = p_value(lambda level, after=after: stratified_mean({"a": after.tolist()}, level=level), null=0.5)
        assert mean == pytest.approx(stats.ttest_1samp(after, 0.5).pvalue, rel=1e-6)


@given(st.tuples(st.integers(0, 8), st.integers(0, 8)), st.floats(1e-6, 0.9))
def test_an_interval_excludes_zero_where_the_p_value_is_below_its_tail(counts: tuple[int, int], tail: float) -> None:
    strata = [(*counts, 20), (counts[0], 0, 15)]
    found = stratified_net_rate(strata, level=1 - tail)
    assert found is not None
    p = p_value(lambda level: stratified_net_rate(strata, level=level))
    if abs(p - tail) > 1e-7:
        assert found.excludes(0) == (p < tail)


def test_without_an_interval_nothing_is_shown_and_the_largest_p_value_is_one() -> None:
    assert p_value(lambda level: None) == 1
    assert p_value(lambda level: Estimate(3.0, None, None, 5)) == 1
    assert p_value(lambda level: stratified_mean({"a": [1.0, -1.0]}, level=level)) == pytest.approx(1)
    assert p_value(lambda level: Estimate(3.0, 3.0, 3.0, 5)) == LEAST_P


def test_holm_agrees_with_a_worked_example() -> None:
    # As R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([]) == ()
    assert holm([0.5, 0.9]) == (1.0, 1.0)
    for wrong in (-0.1, 1.1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            holm([0.5, wrong])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_holm_is_the_closed_test_of_bonferronis(p_values: list[float]) -> None:
    places = range(len(p_values))
    sets = [each for size in range(1, len(p_values) + 1) for each in itertools.combinations(places, size)]
    closed = [
        max(min(1.0, len(each) * min(p_values[other] for other in each)) for each in sets if place in each)
        for place in places
    ]
    assert holm(p_values) == pytest.approx(closed)
