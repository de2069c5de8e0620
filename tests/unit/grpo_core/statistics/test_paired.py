from __future__ import annotations

import math
import random
from statistics import fmean, variance

import numpy as np
import pytest
from scipy import stats

from grpo_core.statistics.estimate import Estimate
from grpo_core.statistics.paired import paired_difference, stratified_paired_difference


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


def test_one_stratum_gives_the_interval_and_p_value_of_scipy() -> None:
    rng = np.random.default_rng(2)
    before, after = rng.integers(0, 35, 40).astype(float), rng.integers(0, 35, 40).astype(float)
    reference = stats.ttest_rel(after, before)
    for level in (0.8, 0.95, 0.999):
        found = stratified_paired_difference({"a": before.tolist()}, {"a": after.tolist()}, level=level)
        assert found is not None
        assert found.interval == pytest.approx(tuple(reference.confidence_interval(level)))


def test_strata_weigh_the_same_whatever_their_pairs() -> None:
    before = {"a": [1.0, 2.0], "b": [0.0] * 4}
    after = {"b": [1.0, 3.0, 1.0, 3.0], "a": [4.0, 8.0]}  # the order of strata does not matter
    found = stratified_paired_difference(before, after)
    assert found is not None
    assert (found.mean, found.n) == ((4.5 + 2.0) / 2, 6)
    a, b = 4.5 / 2, (4 / 3) / 4  # squared standard errors
    freedom = (a + b) ** 2 / (a**2 / 1 + b**2 / 3)
    half = stats.t.ppf(0.975, freedom) * math.sqrt(a + b) / 2
    assert found.interval == pytest.approx((3.25 - half, 3.25 + half))


def test_ties_and_single_pairs_have_a_difference_but_no_interval() -> None:
    ties = {"a": [1.0, 5.0, 0.0], "b": [2.0, 2.0]}
    assert stratified_paired_difference(ties, ties) == Estimate(0.0, None, None, 5)
    single = stratified_paired_difference({"a": [0.0, 1.0], "b": [3.0]}, {"a": [5.0, 2.0], "b": [4.0]})
    assert single == Estimate(2.0, None, None, 3)
    assert stratified_paired_difference({}, {}) is None
    assert stratified_paired_difference({"a": [1.0], "b": []}, {"a": [1.0], "b": []}) is None


def test_a_stratum_of_ties_beside_others_is_no_obstacle() -> None:
    found = stratified_paired_difference({"a": [1.0, 2.0], "b": [3.0, 3.0]}, {"a": [1.0, 4.0], "b": [3.0, 3.0]})
    assert found is not None
    half = stats.t.ppf(0.975, 1) * 1.0 / 2
    assert found.interval == pytest.approx((0.5 - half, 0.5 + half))


def test_strata_and_values_without_a_partner_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one side only: \['b'\]"):
        stratified_paired_difference({"a": [1.0]}, {"a": [1.0], "b": [1.0]})
    with pytest.raises(ValueError, match="zip"):
        stratified_paired_difference({"a": [1.0, 2.0]}, {"a": [1.0]})
