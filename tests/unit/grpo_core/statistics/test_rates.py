from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from grpo_core.statistics.means import clustered_mean
from grpo_core.statistics.rates import (
    clustered_rate,
    counted_rate,
    rate_interval,
    stratified_rate,
    stratified_score_end,
    wilson_score,
)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_scores_agree_with_newcombe(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson_score(successes / trials, trials) == pytest.approx((low, high), abs=5e-5)


def test_wilson_score_of_all_successes_ends_at_one() -> None:
    assert wilson_score(1.0, 20)[1] == 1.0


def test_a_single_cluster_has_no_interval() -> None:
    assert clustered_mean([]) is None
    assert clustered_rate([[]]) is None
    for estimate in (clustered_mean([[1.0, 0.0]]), clustered_rate([[1.0, 0.0]])):
        assert estimate is not None
        assert (estimate.mean, estimate.interval, estimate.n) == (0.5, None, 2)


def test_clustered_rate_at_the_ends_counts_clusters_rather_than_values() -> None:
    estimate = clustered_rate([[0.0] * 10] * 5)
    assert estimate is not None
    assert estimate.low == 0.0
    assert estimate.high is not None
    assert (
        estimate.high > wilson_score(0.0, 5)[1]
    )  # the t quantile of 4 degrees of freedom is larger than the normal one
    mixed = clustered_rate([[0.0, 1.0]] * 5)  # no variance between clusters: not more certain than independent values
    assert mixed is not None
    assert mixed.interval is not None
    assert mixed.interval[1] - mixed.interval[0] > 0.5


@given(st.lists(st.lists(st.booleans(), max_size=5), min_size=2, max_size=6).filter(lambda c: sum(map(bool, c)) > 1))
def test_clustered_rate_holds_its_estimate_inside_zero_to_one(clusters: list[list[bool]]) -> None:
    estimate = clustered_rate(clusters)
    assert estimate is not None
    assert estimate.interval is not None
    low, high = estimate.interval
    assert 0 <= low <= estimate.mean <= high <= 1


@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=4), max_size=6))
def test_shares_of_counted_things_are_the_zeros_and_ones_that_they_stand_for(
    counts: list[list[tuple[int, int]]],
) -> None:
    shares = [[(ones / (ones + zeros) if ones + zeros else 1.0, ones + zeros) for ones, zeros in own] for own in counts]
    values = [[value for ones, zeros in own for value in [1.0] * ones + [0.0] * zeros] for own in counts]
    found, expected = counted_rate(shares), clustered_rate(values)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert (found.mean, found.n) == (pytest.approx(expected.mean), expected.n)
        assert found.interval == (None if expected.interval is None else pytest.approx(expected.interval))


def test_stratified_rate_of_one_stratum_and_of_equal_strata_is_wilsons() -> None:
    flags = [True] * 3 + [False] * 7
    single = stratified_rate({"a": flags})
    assert single is not None
    assert single.mean == 0.3
    assert single.interval == pytest.approx(rate_interval(0.3, 9))  # n - 1 in the variance
    for value, ends in ((False, (0.0, 0.0519)), (True, (0.9481, 1.0))):  # Wilson's for 0 and 70 of 70
        certain = stratified_rate({str(k): [value] * 10 for k in range(7)})
        assert certain is not None
        assert certain.interval == pytest.approx(ends, abs=1e-3)


def test_stratified_rate_ignores_differences_between_strata() -> None:
    strata = {"a": [True] * 19 + [False], "b": [True] + [False] * 19}
    stratified, pooled = stratified_rate(strata), wilson_score(0.5, 40)
    assert stratified is not None
    assert stratified.interval is not None
    width, pooled_width = (high - low for low, high in (stratified.interval, pooled))
    assert stratified.mean == 0.5
    assert width < pooled_width / 2


def test_stratified_rate_without_a_variance_counts_all_games() -> None:
    estimate = stratified_rate({str(k): [k < 2] for k in range(7)})
    assert estimate is not None
    assert estimate.interval == pytest.approx(rate_interval(2 / 7, 7))
    assert stratified_rate({"a": [True], "b": []}) is None


@pytest.mark.parametrize("games", [5, 10])
@pytest.mark.parametrize("rates", [[0.05] * 7, [0.2] * 7, [0.5] * 7, [0.9] + [0.1] * 6, [k / 10 for k in range(1, 8)]])
def test_stratified_rate_has_its_nominal_coverage(games: int, rates: list[float]) -> None:
    rng = random.Random(0)
    covered = 0
    for _ in range(1000):
        estimate = stratified_rate({str(k): [rng.random() < p for _ in range(games)] for k, p in enumerate(rates)})
        assert estimate is not None
        assert estimate.interval is not None
        low, high = estimate.interval
        covered += low <= fmean(rates) <= high
    assert 0.93 <= covered / 1000 <= 0.995


@given(st.integers(0, 10_000), st.floats(1, 1e6), st.floats(0, 50))
def test_wilson_scores_stay_between_zero_and_one(parts: int, trials: float, z: float) -> None:
    low, high = wilson_score(parts / 10_000, trials, z)
    assert 0 <= low <= high <= 1


def coverage_of(trials: int, rates: np.ndarray, ends: Sequence[tuple[float, float]]) -> np.ndarray:
    """The exact probability that the interval of as many events as occur holds each rate."""
    low, high = np.array(ends).T
    counts = stats.binom.pmf(np.arange(trials + 1), trials, rates[:, None])
    held: np.ndarray = (counts * ((low <= rates[:, None]) & (rates[:, None] <= high))).sum(1)
    return held


def least_coverage(trials: int, ends: Sequence[tuple[float, float]]) -> float:
    """The infimum over all rates: coverage falls to it beside the ends of the intervals."""
    low, high = np.array(ends).T
    beside = np.concatenate([low - 1e-10, high + 1e-10])
    return float(coverage_of(trials, beside[(beside > 0) & (beside < 1)], ends).min())


@pytest.mark.parametrize(
    ("trials", "least"), [(range(10, 20), 0.909), (range(20, 50), 0.918), ([*range(50, 101), 140, 210, 700], 0.926)]
)
def test_the_least_coverage_is_what_the_docstring_says(trials: Sequence[int], least: float) -> None:
    for n in trials:
        assert least_coverage(n, [rate_interval(k / n, n) for k in range(n + 1)]) >= least
        assert least_coverage(n, [wilson_score(k / n, n) for k in range(n + 1)]) < 0.84


@pytest.mark.parametrize("trials", [10, 70, 210])
def test_the_mean_coverage_is_near_the_level(trials: int) -> None:
    rates = np.linspace(0.05, 0.95, 1500)
    found = coverage_of(trials, rates, [rate_interval(k / trials, trials) for k in range(trials + 1)])
    assert 0.945 <= found.mean() <= 0.965


def test_events_and_their_absence_have_mirrored_intervals() -> None:
    # 100 - 97 of 100 are not exactly 3 once they are a rate and a product.
    for trials in range(2, 200):
        for events in range(trials + 1):
            low, high = rate_interval(events / trials, trials)
            assert rate_interval(1 - events / trials, trials) == pytest.approx((1 - high, 1 - low), abs=1e-9)


def test_rare_events_have_the_one_sided_exact_lower_end() -> None:
    low, high = rate_interval(1 / 70, 70)
    assert stats.binom.sf(0, 70, low) == pytest.approx(0.05)  # one event or more
    assert high == wilson_score(1 / 70, 70)[1]
    assert rate_interval(69 / 70, 70) == pytest.approx((1 - high, 1 - low))
    assert rate_interval(10 / 70, 70) == wilson_score(10 / 70, 70)


def test_the_score_end_of_equal_strata_is_wilsons() -> None:
    for events in range(11):
        found = stratified_score_end([(events, 10)] * 7, 1.959964)
        assert found == pytest.approx(wilson_score(events / 10, 70, 1.959964)[1], abs=1e-8)


@pytest.mark.parametrize("strata", [[(1, 10), (3, 60)], [(0, 5), (4, 50)], [(2, 9), (0, 40)], [(0, 8), (0, 30)]])
def test_the_score_end_of_two_strata_is_found_by_plain_maximisation(strata: list[tuple[int, int]]) -> None:
    observed = fmean(events / trials for events, trials in strata)

    def most_likely(mean: float) -> tuple[float, float]:
        def loss(first: float) -> float:
            rates = np.clip([first, 2 * mean - first], 1e-300, 1 - 1e-16)
            return -sum(
                events * math.log(p) + (trials - events) * math.log1p(-p)
                for p, (events, trials) in zip(rates, strata, strict=True)
            )

        bounds = (max(0.0, 2 * mean - 1), min(1.0, 2 * mean))
        first = float(optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x)
        return first, 2 * mean - first

    def excess(mean: float) -> float:
        variance = sum(p * (1 - p) / n for p, (_, n) in zip(most_likely(mean), strata, strict=True)) / 4
        return (mean - observed) ** 2 - 1.96**2 * variance

    assert stratified_score_end(strata, 1.96) == pytest.approx(optimize.brentq(excess, observed + 1e-9, 0.9), abs=1e-5)


def test_a_small_stratum_without_events_keeps_the_interval_wide() -> None:
    certain = [True] * 2 + [False] * 98
    equal = stratified_rate({"a": certain, "b": certain})
    unequal = stratified_rate({"a": certain, "b": [False] * 5})
    assert equal is not None
    assert unequal is not None
    assert equal.high is not None
    assert unequal.high is not None
    assert unequal.high > 0.2 > equal.high  # none of five says little
    mirrored = stratified_rate({"a": [not flag for flag in certain], "b": [True] * 5})
    assert mirrored is not None
    assert mirrored.interval == pytest.approx((1 - unequal.high, 1.0), abs=0.01)


@given(
    st.lists(st.lists(st.booleans(), min_size=1, max_size=12), min_size=1, max_size=7),
    st.floats(0.01, 0.5),
    st.floats(0.01, 0.99),
)
def test_rates_of_a_higher_level_have_wider_intervals(strata: list[list[bool]], tail: float, part: float) -> None:
    named = {str(place): flags for place, flags in enumerate(strata)}
    narrow, wide = stratified_rate(named, level=1 - tail), stratified_rate(named, level=1 - tail * part)
    assert narrow is not None
    assert wide is not None
    assert narrow.low is not None
    assert narrow.high is not None
    assert wide.low is not None
    assert wide.high is not None
    assert 0 <= wide.low <= narrow.low + 1e-9
    assert narrow.low - 1e-9 <= narrow.mean <= narrow.high + 1e-9
    assert narrow.high - 1e-9 <= wide.high <= 1
