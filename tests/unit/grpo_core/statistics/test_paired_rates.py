from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from grpo_core.statistics.estimate import Estimate
from grpo_core.statistics.paired_rates import stratified_net_rate, stratified_paired_rate_difference, tango_score
from grpo_core.statistics.rates import wilson_score

counts = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12)).map(lambda c: (c[0], c[1], sum(c) + 1))


def ends_by_maximisation(gains: int, losses: int, pairs: int, z: float) -> tuple[float, float]:
    """The score test inverted with likelihoods that are maximised by search."""

    def excess(difference: float) -> float:
        def loss(lost: float) -> float:
            probabilities = (lost + difference, lost, 1 - 2 * lost - difference)
            observed = (gains, losses, pairs - gains - losses)
            return -sum(n * math.log(max(p, 1e-300)) for n, p in zip(observed, probabilities, strict=True) if n)

        bounds = (max(0.0, -difference), (1 - difference) / 2)
        lost = float(optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x)
        variance = (2 * lost + difference * (1 - difference)) / pairs
        return (difference - (gains - losses) / pairs) ** 2 - z * z * variance

    middle = (gains - losses) / pairs
    return optimize.brentq(excess, -1 + 1e-9, middle - 1e-6), optimize.brentq(excess, middle + 1e-6, 1 - 1e-9)


@pytest.mark.parametrize(("gains", "losses", "pairs"), [(3, 1, 70), (1, 0, 44), (9, 21, 54), (20, 20, 40), (5, 0, 12)])
@pytest.mark.parametrize("z", [1.645, 1.96, 3.3])
def test_score_intervals_are_those_of_likelihoods_maximised_by_search(
    gains: int, losses: int, pairs: int, z: float
) -> None:
    found = tango_score(gains / pairs, losses / pairs, pairs, z)
    assert found == pytest.approx(ends_by_maximisation(gains, losses, pairs, z), abs=2e-5)


def test_ties_alone_leave_what_a_rate_without_events_leaves() -> None:
    # Tango's ends are then z^2 / (n + z^2), as Wilson's.
    end = 1.96**2 / (70 + 1.96**2)
    assert tango_score(0, 0, 70, 1.96) == pytest.approx((-end, end))
    found = stratified_net_rate([(0, 0, 10)] * 7)
    assert found is not None
    assert found.interval == pytest.approx((-end, end), abs=1e-5)
    assert (found.mean, found.n) == (0.0, 70)


def test_nothing_but_gains_ends_at_one() -> None:
    found = stratified_net_rate([(10, 0, 10)] * 7)
    assert found is not None
    # Without ties or losses seen, losses are what is not a gain: the difference is 2 p - 1, with Wilson's end of p.
    assert found.interval == pytest.approx((2 * wilson_score(1.0, 70)[0] - 1, 1.0))


@given(st.lists(counts, min_size=1, max_size=5), st.floats(0.01, 0.5), st.floats(0.01, 0.99))
def test_net_rates_are_symmetric_bounded_and_wider_at_a_higher_level(
    strata: list[tuple[int, int, int]], tail: float, part: float
) -> None:
    found = stratified_net_rate(strata, level=1 - tail)
    exchanged = stratified_net_rate([(losses, gains, pairs) for gains, losses, pairs in strata], level=1 - tail)
    wider = stratified_net_rate(strata, level=1 - tail * part)
    assert found is not None
    assert exchanged is not None
    assert wider is not None
    assert found.interval is not None
    assert exchanged.interval is not None
    assert wider.interval is not None
    (low, high), (wide_low, wide_high) = found.interval, wider.interval
    assert exchanged.interval == pytest.approx((-high, -low), abs=1e-9)
    assert -1 <= wide_low <= low + 1e-9
    assert low - 1e-9 <= found.mean <= high + 1e-9
    assert high - 1e-9 <= wide_high <= 1


def test_values_are_counted_as_gains_and_losses() -> None:
    before = {"a": [0, 1, 1, 0, 0], "b": [0, 0]}
    after = {"a": [1, 1, 0, 0, 1], "b": [0, 1]}
    found = stratified_paired_rate_difference(before, after)
    assert found == stratified_net_rate([(2, 1, 5), (1, 0, 2)])
    assert found is not None
    assert found.mean == pytest.approx((1 / 5 + 1 / 2) / 2)
    assert stratified_paired_rate_difference({}, {}) is None
    assert stratified_paired_rate_difference({"a": []}, {"a": []}) is None
    with pytest.raises(ValueError, match="0 or 1"):
        stratified_paired_rate_difference({"a": [0.5]}, {"a": [1.0]})


def test_a_single_pair_still_has_an_interval() -> None:
    found = stratified_net_rate([(1, 0, 1)])
    assert isinstance(found, Estimate)
    assert found.low is not None
    assert -1 < found.low < 0 < found.mean == found.high
