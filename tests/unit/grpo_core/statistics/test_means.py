from __future__ import annotations

import math
import random
from statistics import fmean, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_core.statistics.estimate import CENTERS, SHARE, UNBOUNDED
from grpo_core.statistics.means import clustered_mean, sample_variance, stratified_mean
from grpo_core.statistics.quantiles import student_t_quantile

finite = st.floats(-1e3, 1e3)


def test_a_mean_needs_one_value_and_an_interval_two() -> None:
    assert clustered_mean([]) is None
    one = clustered_mean([[4.0]])
    assert one is not None
    assert (one.mean, one.interval, one.n) == (4.0, None, 1)


def test_mean_interval_equals_one_computed_by_hand() -> None:
    # Mean 3, variance 2.5, t(0.975, 4) = 2.776445.
    estimate = clustered_mean([[1], [2], [3], [4], [5]])
    assert estimate is not None
    half = 2.7764451052 * math.sqrt(2.5 / 5)
    assert estimate.interval == pytest.approx((3 - half, 3 + half), abs=1e-8)


def test_equal_values_give_a_zero_width_interval() -> None:
    estimate = clustered_mean([[2.0]] * 6)
    assert estimate is not None
    assert estimate.interval == (2.0, 2.0)


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_values_at_one_end_of_their_range_leave_room_as_a_rate_does(end: float) -> None:
    # Clopper and Pearson for 100 of 100: (0.025 ** 0.01, 1).
    estimate = stratified_mean({"FRANCE": [end] * 100}, SHARE)
    assert estimate is not None
    assert estimate.interval is not None
    assert sorted(abs(end - each) for each in estimate.interval) == pytest.approx([0.0, 0.03621669], abs=1e-8)


def test_strata_at_one_end_are_as_many_trials_as_the_smallest_would_give() -> None:
    for strata in ({"a": [0.0] * 3, "b": [0.0] * 20}, {"a": [0.0] * 3, "b": [0.0] * 3}, {"a": [0.0] * 6}):
        estimate = stratified_mean(strata, CENTERS)
        assert estimate is not None
        assert estimate.interval == pytest.approx((0.0, 34 * (1 - 0.025 ** (1 / 6))))


def test_counts_that_are_all_zero_leave_open_how_rare_they_are() -> None:
    estimate = stratified_mean({"a": [0.0] * 4, "b": [0.0] * 4}, (0.0, math.inf))
    assert estimate is not None
    assert (estimate.mean, estimate.interval, estimate.n) == (0.0, None, 8)


@pytest.mark.parametrize(("value", "within"), [(0.5, SHARE), (3.0, (0.0, math.inf)), (1.0, UNBOUNDED)])
def test_equal_values_elsewhere_say_nothing_of_the_width(value: float, within: tuple[float, float]) -> None:
    estimate = stratified_mean({"a": [value] * 4}, within)
    assert estimate is not None
    assert estimate.interval == (value, value)


@given(st.lists(st.lists(finite, min_size=2, max_size=6), min_size=2, max_size=5))
def test_strata_of_any_size_weigh_the_same(strata: list[list[float]]) -> None:
    estimate = stratified_mean({str(i): values for i, values in enumerate(strata)})
    assert estimate is not None
    assert estimate.mean == pytest.approx(fmean(map(fmean, strata)), abs=1e-6)
    assert estimate.n == sum(map(len, strata))
    error = math.sqrt(sum(variance(values) / len(values) for values in strata)) / len(strata)
    assert estimate.interval is not None
    low, high = estimate.interval
    assert high - low >= 2 * 1.95 * error - 1e-9


def test_two_strata_give_welchs_degrees_of_freedom() -> None:
    first, second = [1.0, 2.0, 3.0], [4.0, 5.0, 7.0, 9.0]
    a, b = variance(first) / 3, variance(second) / 4
    freedom = (a + b) ** 2 / (a**2 / 2 + b**2 / 3)
    half = student_t_quantile(0.975, freedom) * math.sqrt(a + b) / 2
    estimate = stratified_mean({"a": first, "b": second})
    assert estimate is not None
    assert estimate.interval == pytest.approx((4.125 - half, 4.125 + half))


def test_strata_with_too_few_values_have_no_mean_or_no_interval() -> None:
    assert stratified_mean({}) is None
    assert stratified_mean({"a": [1.0, 2.0], "b": []}) is None
    estimate = stratified_mean({"a": [1.0, 3.0], "b": [4.0]})
    assert estimate is not None
    assert (estimate.mean, estimate.interval) == (3.0, None)


def test_stratified_intervals_cover_the_truth() -> None:
    draw = random.Random(5)
    scales = (0.5, 1.0, 3.0)
    rounds, held = 400, 0
    for _ in range(rounds):
        estimate = stratified_mean({str(s): [draw.gauss(s, s) for _ in range(5)] for s in scales})
        assert estimate is not None
        assert estimate.interval is not None
        held += estimate.interval[0] <= fmean(scales) <= estimate.interval[1]
    assert 0.92 <= held / rounds <= 0.98


def test_clusters_of_equal_size_give_the_t_interval_of_their_means() -> None:
    clusters = [[1.0, 4.0], [2.0, 2.0], [7.0, 3.0], [0.0, 5.0]]
    estimate, means = clustered_mean(clusters), clustered_mean([[fmean(cluster)] for cluster in clusters])
    assert estimate is not None
    assert means is not None
    assert estimate.interval == pytest.approx(means.interval)
    assert (estimate.mean, estimate.n) == (3.0, 8)


def test_clustered_interval_of_unequal_sizes_equals_one_computed_by_hand() -> None:
    # Shares 3/4 and 1/4, mean 2, residual sums -3 and 3: variance (9 / (1/4) + 9 / (3/4)) / 16 = 3;
    # b = 9/4 and 1/12, degrees of freedom 1 / (10/16 + 2 * 9/4 * 1/12) = 1.
    estimate = clustered_mean([[0.0, 1.0, 2.0], [], [5.0]])
    assert estimate is not None
    half = 12.7062047362 * math.sqrt(3)
    assert estimate.interval == pytest.approx((2 - half, 2 + half))


bounded = st.lists(st.lists(st.sampled_from([0, 1, 4, 17, 34]), min_size=1, max_size=4), min_size=1, max_size=7)


@given(bounded)
def test_no_interval_of_bounded_values_leaves_their_range(values: list[list[int]]) -> None:
    strata = {str(number): games for number, games in enumerate(values)}
    for cut, free in (
        (stratified_mean(strata, CENTERS), stratified_mean(strata)),
        (clustered_mean(values, CENTERS), clustered_mean(values)),
    ):
        assert cut is not None
        assert free is not None
        assert (cut.interval is None) == (free.interval is None)
        if cut.interval is not None and free.interval is not None:
            assert 0 <= cut.interval[0] <= cut.mean + 1e-9
            assert cut.mean - 1e-9 <= cut.interval[1] <= 34
            # Nothing inside the range is cut off; more may be inside where all values are at an end.
            inside = (max(0, free.interval[0]), min(34, free.interval[1]))
            if cut.mean in CENTERS:
                assert cut.interval[0] <= inside[0] <= inside[1] <= cut.interval[1]
            else:
                assert cut.interval == inside


def test_an_interval_that_is_cut_holds_the_truth_as_often() -> None:
    draw, rounds, cut_often = random.Random(7), 400, 0
    held = {"cut": 0, "whole": 0}
    for _ in range(rounds):
        strata = {str(country): [34.0 * (draw.random() < 0.1) for _ in range(3)] for country in range(7)}
        cut, whole = stratified_mean(strata, CENTERS), stratified_mean(strata)
        assert cut is not None
        assert whole is not None
        assert cut.interval is not None
        assert whole.interval is not None
        if cut.mean == 0:  # its interval is of another kind
            assert cut.interval[1] >= 3.4
            continue
        cut_often += cut.interval != whole.interval
        for name, (low, high) in (("cut", cut.interval), ("whole", whole.interval)):
            held[name] += low <= 3.4 <= high
    assert cut_often > rounds / 4
    assert held["cut"] == held["whole"]


def test_intervals_of_other_levels_use_other_quantiles() -> None:
    clusters = [[1.0], [2.0], [3.0], [4.0], [5.0]]
    for level, quantile in ((0.9, 2.1318467863), (0.99, 4.6040948714)):  # t(4) from printed tables
        half = quantile * math.sqrt(2.5 / 5)
        stratified, clustered = (
            stratified_mean({"a": [1, 2, 3, 4, 5]}, level=level),
            clustered_mean(clusters, level=level),
        )
        assert stratified is not None
        assert clustered is not None
        assert stratified.interval == pytest.approx((3 - half, 3 + half), abs=1e-8)
        assert clustered.interval == pytest.approx((3 - half, 3 + half), abs=1e-8)


@given(st.lists(finite, min_size=2, max_size=20))
def test_the_variance_of_a_sample_is_the_librarys(values: list[float]) -> None:
    assert sample_variance(values) == pytest.approx(variance(values), rel=1e-9, abs=1e-9)


def test_equal_values_have_no_variance_at_all() -> None:
    assert sample_variance([0.1] * 3) == 0.0  # their mean, rounded, is another number
