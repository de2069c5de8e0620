import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_core.advantages.group_weights import GroupProgress, bounded_to_mean_one, group_weights, updated_progress

raw_and_sizes = st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 500)), min_size=1, max_size=12)


@settings(deadline=None)
@given(raw_and_sizes, st.floats(0.01, 1), st.floats(1, 50))
def test_bounded_weights_keep_their_order_and_a_mean_of_one_over_samples(rows, lowest, highest):
    raw = np.array([weight for weight, _ in rows])
    size = np.array([count for _, count in rows], np.float64)
    weights = bounded_to_mean_one(raw, size, lowest, highest)
    assert (weights >= lowest).all()
    assert (weights <= highest).all()
    assert np.average(weights, weights=size) == pytest.approx(1, abs=1e-9)
    by_raw = np.argsort(raw, kind="stable")
    assert (np.diff(weights[by_raw]) >= 0).all()
    inside = (weights > lowest * 1.001) & (weights < highest * 0.999) & (raw > 1e-3 * raw.max())
    if inside.sum() > 1:  # what no bound touches keeps its proportions
        assert weights[inside] / raw[inside] == pytest.approx((weights[inside] / raw[inside])[0])


def test_balanced_weights_give_groups_equal_totals():
    counts = {"A": 10, "B": 30, "C": 20}
    weights = group_weights("balanced", counts, {}, 0.1, 10)
    assert [weights[name] * count for name, count in counts.items()] == pytest.approx([20, 20, 20])


def test_bounds_limit_balanced_weights():
    weights = group_weights("balanced", {"A": 1, "B": 99}, {}, 0.5, 2)
    assert weights["A"] == pytest.approx(2)
    assert weights["B"] == pytest.approx(98 / 99)


PAST = {
    "A": GroupProgress(fast=4.0, slow=2.0, variance=1.0),
    "B": GroupProgress(fast=6.0, slow=6.0, variance=1.0),
    "C": GroupProgress(fast=3.0, slow=4.0, variance=4.0),
}
EVEN = dict.fromkeys(PAST, 8)


def test_performance_weights_are_larger_for_weaker_groups():
    weights = group_weights("performance", EVEN, PAST, 0.01, 100)
    step = np.sqrt(1.5)  # the slow means 2, 4, 6 in their deviations
    raw = np.exp([step, -step, 0])
    assert list(weights.values()) == pytest.approx(raw / raw.mean())


def test_adaptive_weights_are_larger_for_groups_that_progress_and_average_for_new_ones():
    weights = group_weights("adaptive", {**EVEN, "D": 8}, PAST, 0.01, 100)
    floor = 0.01  # B stands still: the lowest weight there is
    raw = np.array([2.0, 0.0, 0.5, 2.5 / 3])
    rest = raw / raw.sum() * (4 - floor)
    assert list(weights.values()) == pytest.approx([rest[0], floor, rest[2], rest[3]])


@pytest.mark.parametrize("kind", ["none", "performance", "adaptive"])
def test_groups_without_a_past_have_equal_weights(kind):
    assert list(group_weights(kind, {"A": 3, "B": 70}, {}, 0.5, 2).values()) == pytest.approx([1, 1])


@settings(deadline=None)
@given(st.floats(-50, 50), st.sampled_from([0.25, 4.0, 64.0]), st.sampled_from(["performance", "adaptive"]))
def test_weights_ignore_shift_and_unit_of_returns_and_the_order_of_groups(shift, unit, kind):
    moved = {
        name: GroupProgress(unit * each.fast + shift, unit * each.slow + shift, unit**2 * each.variance)
        for name, each in PAST.items()
    }
    plain = group_weights(kind, EVEN, PAST, 0.2, 3)
    assert group_weights(kind, EVEN, moved, 0.2, 3) == pytest.approx(plain, rel=1e-6)
    assert group_weights(kind, dict(reversed(EVEN.items())), PAST, 0.2, 3) == pytest.approx(plain)


def test_measured_progress_rises_while_returns_change_and_decays_afterwards():
    rng = np.random.default_rng(0)
    seen, past = [], {}
    for batch in range(120):
        level = min(batch, 20) * 0.5
        returns = (level + rng.normal(0, 1, 400)).astype(np.float32)
        past = updated_progress(past, ["A"] * 400, returns)
        seen.append(past["A"].learning)
    assert seen[0] == 0
    # A ramp of 0.5 a batch: an exponential mean with memory m lags 0.5 m / (1 - m) behind.
    assert seen[19] == pytest.approx(4.5 * (1 - 0.9**20) - 0.5, rel=0.15)
    assert seen[-1] < 0.2
    assert past["A"].slow == pytest.approx(10, abs=0.1)
    assert past["A"].variance == pytest.approx(1, abs=0.1)


def test_a_group_without_samples_keeps_its_progress():
    after = updated_progress(PAST, ["A", "A"], np.array([1.0, 3.0], np.float32))
    assert after["B"] is PAST["B"]
    assert after["A"] == GroupProgress(fast=3.0, slow=pytest.approx(2.0), variance=pytest.approx(1.0))
    assert PAST["A"].fast == 4.0
