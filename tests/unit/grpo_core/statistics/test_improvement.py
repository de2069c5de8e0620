from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from grpo_core.statistics.improvement import paired_probability_of_improvement, probability_of_improvement
from grpo_core.statistics.paired_rates import stratified_net_rate
from grpo_core.statistics.rates import wilson_score

centers = st.lists(st.integers(0, 34), min_size=1, max_size=8)


@given(centers, centers)
def test_the_share_of_better_pairs_is_mann_and_whitneys(before: list[int], after: list[int]) -> None:
    found = probability_of_improvement({"a": before}, {"a": after})
    assert found is not None
    reference = stats.mannwhitneyu(after, before).statistic / (len(before) * len(after))
    assert found.mean == pytest.approx(reference)
    assert found.interval is not None
    assert 0 <= found.interval[0] <= found.mean + 1e-9
    assert found.mean - 1e-9 <= found.interval[1] <= 1
    exchanged = probability_of_improvement({"a": after}, {"a": before})
    assert exchanged is not None
    assert exchanged.interval == pytest.approx((1 - found.interval[1], 1 - found.interval[0]))


def test_the_interval_has_brunner_and_munzels_variance_and_freedom() -> None:
    rng = np.random.default_rng(1)
    before, after = rng.integers(0, 20, 15), rng.integers(4, 30, 22)
    found = probability_of_improvement({"a": before.tolist()}, {"a": after.tolist()})
    reference = stats.brunnermunzel(before, after)
    assert found is not None
    # Their statistic is the distance from 1/2 over the standard error.
    variance = ((found.mean - 0.5) / reference.statistic) ** 2
    below, above = (
        np.array([np.mean((other < each) + (other == each) / 2) for each in own])
        for own, other in ((before, after), (after, before))
    )
    parts = [(np.var(each, ddof=1) / len(each), len(each) - 1) for each in (below, above)]
    assert variance == pytest.approx(sum(part for part, _ in parts))
    freedom = variance**2 / sum(part**2 / df for part, df in parts)
    effective = found.mean * (1 - found.mean) / variance
    assert found.interval == pytest.approx(wilson_score(found.mean, effective, stats.t.ppf(0.975, freedom)))


def test_large_samples_have_the_interval_of_a_bootstrap() -> None:
    rng = np.random.default_rng(7)
    before = {name: rng.binomial(34, rng.beta(0.7, 5, 60)).tolist() for name in "abc"}
    after = {name: rng.binomial(34, rng.beta(1.2, 5, 90)).tolist() for name in "abc"}

    def share(*values: np.ndarray, axis: int = -1) -> np.ndarray:
        old, new = values[:3], values[3:]
        pairs = [
            (n[..., :, None] > o[..., None, :]) + 0.5 * (n[..., :, None] == o[..., None, :])
            for o, n in zip(old, new, strict=True)
        ]
        mean: np.ndarray = np.mean([each.mean((-1, -2)) for each in pairs], axis=0)
        return mean

    resampled = stats.bootstrap(
        [*map(np.array, before.values()), *map(np.array, after.values())],
        share,
        n_resamples=2000,
        method="percentile",
        vectorized=True,
        batch=200,
        rng=np.random.default_rng(8),
    ).confidence_interval
    found = probability_of_improvement(before, after)
    assert found is not None
    assert found.interval == pytest.approx((resampled.low, resampled.high), abs=0.012)


def test_strata_weigh_the_same_and_certainty_stays_bounded() -> None:
    found = probability_of_improvement({"a": [1, 1], "b": [5] * 10}, {"a": [2, 3], "b": [5] * 6})
    assert found is not None
    assert (found.mean, found.n) == (0.75, 20)
    assert found.interval == pytest.approx(wilson_score(0.75, 8))  # placements do not vary: the fewer games count
    certain = probability_of_improvement({"a": [0] * 10}, {"a": [9] * 10})
    assert certain is not None
    assert certain.interval == pytest.approx(wilson_score(1.0, 10))
    single = probability_of_improvement({"a": [3]}, {"a": [4]})
    assert single is not None
    assert single.interval == pytest.approx(wilson_score(1.0, 1))


def test_what_cannot_be_compared_is_none_or_refused() -> None:
    assert probability_of_improvement({}, {}) is None
    assert probability_of_improvement({"a": [1.0], "b": []}, {"a": [1.0], "b": [2.0]}) is None
    assert paired_probability_of_improvement({"a": []}, {"a": []}) is None
    for compare in (probability_of_improvement, paired_probability_of_improvement):
        with pytest.raises(ValueError, match="one side only"):
            compare({"a": [1.0]}, {"b": [1.0]})


def test_pairs_are_compared_at_their_own_table() -> None:
    before, after = {"a": [1.0, 5.0, 9.0], "b": [0.0, 4.0]}, {"a": [2.0, 5.0, 8.0], "b": [3.0, 4.0]}
    found, net = paired_probability_of_improvement(before, after), stratified_net_rate([(1, 1, 3), (1, 0, 2)])
    assert found is not None
    assert net is not None
    assert net.interval is not None
    assert found.mean == pytest.approx((1 / 2 + 3 / 4) / 2)
    assert found.interval == pytest.approx(tuple((1 + end) / 2 for end in net.interval))
