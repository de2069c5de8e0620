from __future__ import annotations

import math
import random
from statistics import fmean, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_core.statistics.estimate import CENTERS, Estimate, difference
from grpo_core.statistics.means import clustered_mean, stratified_mean
from grpo_core.statistics.paired import paired_difference
from grpo_core.statistics.quantiles import student_t_quantile
from grpo_core.statistics.rates import clustered_rate, rate_interval, stratified_rate, wilson_score

finite = st.floats(-1e3, 1e3)


@pytest.mark.parametrize(
    ("probability", "freedom", "expected"),
    [
        # From printed tables of Student's distribution.
        (0.975, 1, 12.7062047362),
        (0.975, 2, 4.3026527297),
        (0.975, 5, 2.5705818356),
        (0.975, 10, 2.2281388520),
        (0.975, 30, 2.0422724563),
        (0.975, 120, 1.9799304051),
        (0.95, 4, 2.1318467863),
        (0.995, 7, 3.4994832974),
    ],
)
def test_t_quantiles_agree_with_tables(probability: float, freedom: float, expected: float) -> None:
    assert student_t_quantile(probability, freedom) == pytest.approx(expected, abs=1e-9)


def test_t_quantiles_have_closed_forms_at_one_and_two_degrees_of_freedom() -> None:
    for probability in (0.6, 0.9, 0.99, 0.9999):
        cauchy = math.tan(math.pi * (probability - 0.5))
        assert student_t_quantile(probability, 1) == pytest.approx(cauchy, rel=1e-9)
        two = (2 * probability - 1) / math.sqrt(2 * probability * (1 - probability))
        assert student_t_quantile(probability, 2) == pytest.approx(two, rel=1e-9)


@given(st.floats(0.001, 0.999), st.floats(0.5, 1e5))
def test_t_quantiles_are_symmetric_and_shrink_with_freedom(probability: float, freedom: float) -> None:
    quantile = student_t_quantile(probability, freedom)
    assert quantile == pytest.approx(-student_t_quantile(1 - probability, freedom), rel=1e-6, abs=1e-9)
    assert abs(quantile) >= abs(student_t_quantile(probability, freedom * 2)) - 1e-7


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


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_scores_agree_with_newcombe(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson_score(successes / trials, trials) == pytest.approx((low, high), abs=5e-5)


def test_wilson_score_of_all_successes_ends_at_one() -> None:
    assert wilson_score(1.0, 20)[1] == 1.0


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
            # Nothing inside the range is cut off.
            assert cut.interval == (max(0, free.interval[0]), min(34, free.interval[1]))


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


@given(st.integers(0, 10_000), st.floats(1, 1e6), st.floats(0, 50))
def test_wilson_scores_stay_between_zero_and_one(parts: int, trials: float, z: float) -> None:
    low, high = wilson_score(parts / 10_000, trials, z)
    assert 0 <= low <= high <= 1


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
        cut_often += cut.interval != whole.interval
        for name, (low, high) in (("cut", cut.interval), ("whole", whole.interval)):
            held[name] += low <= 3.4 <= high
    assert cut_often > rounds / 4
    assert held["cut"] == held["whole"]


def test_paired_difference_equals_students_interval_of_the_differences() -> None:
    before, after = [0.25, 0.5, 0.0, 1.0, 0.75], [1.0, 0.0, 0.0, 1.0, 1.0]
    differences = [new - old for old, new in zip(before, after, strict=True)]
    half = 2.7764451052 * math.sqrt(variance(differences) / 5)  # t(0.975, 4) from a printed table
    found = paired_difference(before, after)
    assert found is not None
    assert (found.mean, found.n) == (pytest.approx(fmean(differences)), 5)
    assert found.interval == pytest.approx((fmean(differences) - half, fmean(differences) + half))
    cut = paired_difference(before, after, (-0.1, 0.2))
    assert cut is not None
    assert cut.interval == (-0.1, 0.2)


def test_pairing_removes_what_the_pairs_share() -> None:
    generator = random.Random(3)
    shared = [generator.gauss(0, 10) for _ in range(50)]
    before = [value + generator.gauss(0, 0.1) for value in shared]
    after = [value + 1 + generator.gauss(0, 0.1) for value in shared]
    found = paired_difference(before, after)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert 0.8 < found.low < 1 < found.high < 1.2


def test_a_paired_difference_has_no_interval_from_one_pair_or_from_equal_differences() -> None:
    assert paired_difference([], []) is None
    assert paired_difference([1.0], [3.0]) == Estimate(2.0, None, None, 1)
    assert paired_difference([1.0, 2.0], [1.0, 2.0]) == Estimate(0.0, None, None, 2)
    with pytest.raises(ValueError, match="zip"):
        paired_difference([1.0], [])
