import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_core.advantages.group_baseline import RunningBaseline, group_advantages, updated_baselines
from grpo_core.advantages.grouping import RUNNING_LEVEL, Sample
from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Group
from tests.unit.grpo_core.support.cases import episode_of, make_groups, ragged_turn

CHAIN = GroupingSettings(keys=("country+phase", "country"), min_group_size=3)
RUNNING = {"A": RunningBaseline(0.5, 2.25), "B": RunningBaseline(-1.0, 0.25)}

returns_values = st.floats(-100, 100, width=32)
cases = st.lists(
    st.tuples(st.sampled_from("AB"), st.sampled_from(["S1901M", "F1901M", "W1901A"]), returns_values),
    min_size=1,
    max_size=30,
)


def advantages_of(case, **options):
    samples = [Sample(role, index, {"country": role, "phase": phase}) for index, (role, phase, _) in enumerate(case)]
    returns = np.array([value for _, _, value in case], np.float32)
    groups = make_groups(samples, CHAIN)
    return group_advantages(returns, groups, RUNNING, **options)


def naive(case, scale, leave_one_out, eps):
    """One sample at a time, straight from the definitions."""
    out = []
    for index, (role, phase, value) in enumerate(case):
        rows = [(i, v) for i, (r, p, v) in enumerate(case) if r == role and p == phase]
        if len(rows) < 3:
            rows = [(i, v) for i, (r, _, v) in enumerate(case) if r == role]
        if len(rows) < 3:
            gap = value - RUNNING[role].mean
            std = max(math.sqrt(RUNNING[role].variance), abs(gap) / 3)
        else:
            values = [v for _, v in rows]
            mean = sum(values) / len(values)
            std = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
            if leave_one_out:
                mean = sum(v for i, v in rows if i != index) / (len(rows) - 1)
            gap = 0.0 if max(values) == min(values) else value - mean
        out.append(gap / (std + eps) if scale == "group" else gap)
    if scale == "batch":
        size = math.sqrt(sum(gap * gap for gap in out) / len(out))
        out = [gap / (size + eps) for gap in out]
    return out


@settings(max_examples=60, deadline=None)
@given(cases, st.sampled_from(["group", "batch", "none"]), st.booleans())
def test_group_advantages_equal_a_plain_loop(case, scale, leave_one_out):
    ours, _ = advantages_of(case, scale=scale, leave_one_out=leave_one_out)
    assert ours == pytest.approx(naive(case, scale, leave_one_out, 1e-4), rel=1e-4, abs=1e-4)


turns = st.lists(
    st.tuples(st.sampled_from("AB"), st.integers(0, 2), st.integers(-40, 40).map(float)), min_size=4, max_size=25
)


@settings(max_examples=80, deadline=None)
@given(turns)
def test_leave_one_out_excludes_the_samples_whole_episode(case):
    # Episodes 0 to 2 of each country; one turn a sample, all in one group a country.
    samples = [Sample(role, 3 * (role == "B") + number, {"country": role}) for role, number, _ in case]
    episodes = np.array([sample.episode for sample in samples])
    returns = np.array([value for _, _, value in case], np.float32)
    groups = make_groups(samples, GroupingSettings(keys=("country",), min_group_size=3))
    ours, statistics = group_advantages(returns, groups, {}, scale="none", leave_one_out=True, episodes=episodes)
    for group, statistic in zip(groups, statistics, strict=True):
        if group.level == RUNNING_LEVEL:
            continue
        mine = [returns[index] for index in group.members]
        alone = len({episodes[index] for index in group.members}) == 1
        assert statistic.zero_variance == (alone or max(mine) == min(mine))
        for index in group.decided:
            others = [float(returns[i]) for i in group.members if episodes[i] != episodes[index]]
            expected = 0.0 if statistic.zero_variance else float(returns[index]) - sum(others) / len(others)
            assert ours[index] == pytest.approx(expected, abs=1e-4)


def test_turns_of_one_episode_are_not_in_each_others_leave_one_out_baseline():
    group = Group(("A",), "country", (0, 1, 2, 3), (1, 3))
    returns = np.array([1, 5, 2, 6], np.float32)
    episodes = np.array([7, 7, 4, 4])
    options = {"scale": "none", "leave_one_out": True}
    assert group_advantages(returns, [group], {}, **options, episodes=episodes)[0].tolist() == [0, 1, 0, 3]
    assert group_advantages(returns, [group], {}, **options)[0].tolist() == pytest.approx([0, 2, 0, 10 / 3])
    zeros, (statistic,) = group_advantages(returns, [group], {}, **options, episodes=np.zeros(4, np.int64))
    assert not zeros.any()
    assert statistic.zero_variance
    # The mean of all members does not need a second episode.
    assert not group_advantages(returns, [group], {}, scale="none", episodes=np.zeros(4, np.int64))[1][0].zero_variance


small_integers = st.lists(
    st.tuples(st.sampled_from("AB"), st.just("S1901M"), st.integers(-20, 20).map(float)), min_size=6, max_size=20
).filter(lambda case: all(sum(role == name for role, _, _ in case) >= 3 for name in "AB"))


@given(small_integers, st.integers(-64, 64))
def test_a_constant_added_to_one_countrys_returns_changes_no_advantage(case, shift):
    moved = [(role, phase, value + shift * (role == "A")) for role, phase, value in case]
    for scale in ("group", "batch", "none"):
        assert advantages_of(moved, scale=scale)[0] == pytest.approx(advantages_of(case, scale=scale)[0], abs=1e-5)


@given(small_integers, st.sampled_from([0.25, 2.0, 64.0]))
def test_group_scaled_advantages_do_not_depend_on_the_unit_of_the_returns(case, unit):
    scaled = [(role, phase, value * unit) for role, phase, value in case]
    assert advantages_of(scaled, eps=0.0)[0] == pytest.approx(advantages_of(case, eps=0.0)[0], abs=1e-5)


@given(returns_values, st.integers(2, 50))
def test_equal_float32_returns_give_advantages_of_exactly_zero(value, count):
    returns = np.full(count, value, np.float32)
    group = Group(("A",), "country", tuple(range(count)), tuple(range(count)))
    for leave_one_out in (False, True):
        advantages, statistics = group_advantages(returns, [group], {}, scale="group", leave_one_out=leave_one_out)
        assert not advantages.any()
        assert statistics[0].zero_variance
    # A mean in float32 is off by an ulp for such values; the smallest real difference is still a variance.
    returns[0] = np.nextafter(returns[0], np.float32(np.inf))
    assert not group_advantages(returns, [group], {}, scale="group")[1][0].zero_variance


def test_a_lone_sample_is_compared_with_its_roles_running_baseline():
    group = Group(("A",), RUNNING_LEVEL, (0,), (0,))
    returns = np.array([2.0], np.float32)
    assert group_advantages(returns, [group], RUNNING, scale="none")[0].tolist() == [1.5]
    assert group_advantages(returns, [group], RUNNING, scale="group", eps=0.0)[0].tolist() == [1.0]
    unknown, (statistic,) = group_advantages(returns, [group], {}, scale="none")
    assert unknown.tolist() == [0.0]
    assert statistic.zero_variance
    calm = {"A": RunningBaseline(0.0, 0.0)}
    assert group_advantages(returns, [group], calm, scale="group", eps=0.0)[0].tolist() == [3.0]


@given(st.lists(returns_values, min_size=1, max_size=20), st.lists(returns_values, min_size=1, max_size=20))
def test_the_running_baseline_is_the_weighted_mixture_of_batches(first, second):
    start = updated_baselines({}, ["A"] * len(first), np.array(first, np.float32), 0.75)
    after = updated_baselines(start, ["A"] * len(second), np.array(second, np.float32), 0.75)
    assert start["A"].mean == pytest.approx(np.mean(first, dtype=np.float64), abs=1e-5)
    weights = [0.75 / len(first)] * len(first) + [0.25 / len(second)] * len(second)
    values = np.array(first + second, np.float64)
    mean = np.average(values, weights=weights)
    assert after["A"].mean == pytest.approx(mean, abs=1e-4)
    assert after["A"].variance == pytest.approx(np.average((values - mean) ** 2, weights=weights), rel=1e-5, abs=1e-4)


def test_a_role_without_samples_keeps_its_running_baseline():
    after = updated_baselines(RUNNING, ["A", "A"], np.array([1.0, 2.0], np.float32), 0.9)
    assert after["B"] == RUNNING["B"]
    assert RUNNING["A"].mean == 0.5  # the old mapping is untouched: it is read before it is replaced


def test_the_pipeline_leaves_out_whole_episodes():
    rng = np.random.default_rng(0)
    turns = [ragged_turn(rng, reward=reward) for reward in (1.0, 5.0, 2.0, 6.0, 4.0)]
    episodes = (episode_of(tuple(turns[:2]), name="b/0"), episode_of(tuple(turns[2:]), name="b/1"))
    grouping = GroupingSettings(keys=("country",), min_group_size=2, scale_rewards="none", baseline="leave_one_out")
    learner = LearnerSettings(returns="per_phase", discount=1e-9)
    found = compute_advantages(episodes, learner, grouping, {}).advantages.tolist()
    assert found == pytest.approx([1 - 4, 5 - 4, 2 - 3, 6 - 3, 4 - 3], abs=1e-5)
    alone = compute_advantages(episodes[:1], learner, grouping, {})
    assert not alone.advantages.any()
    assert alone.group_statistics[0].zero_variance
