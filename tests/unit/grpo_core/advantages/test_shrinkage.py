import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_core.advantages.group_baseline import group_advantages
from grpo_core.advantages.grouping import Sample, groups_of, levels_of
from grpo_core.advantages.shrinkage import shrunk_levels, variance_components
from grpo_core.errors import GroupingError
from grpo_core.settings import GroupingSettings

CHAIN = GroupingSettings(keys=("country+phase", "country+segment", "country"), min_group_size=2, shrinkage=True)


def sample(role, segment, phase, episode=0):
    return Sample(role, episode, {"country": role, "segment": segment, "phase": f"{segment}{phase}"})


def shrunk(samples, returns, keys=CHAIN.keys, episodes=None):
    levels = levels_of(samples, CHAIN.model_copy(update={"keys": keys}))
    return shrunk_levels(np.asarray(returns, np.float32), levels, [each.role for each in samples], episodes)


def labels_of(samples, fact):
    names = [f"{each.role}{each.facts[fact]}" for each in samples]
    return np.array([sorted(set(names)).index(name) for name in names], np.int32)


def hierarchy(seed, between, roles="AB"):
    """Segments within countries, phases within segments, a few returns each; and each one's expected return."""
    rng = np.random.default_rng(seed)
    samples, expected = [], []
    for role in roles:
        for segment in "om":
            segment_mean = rng.normal(5, between)
            for phase in range(8):
                phase_mean = segment_mean + rng.normal(0, between)
                count = int(rng.integers(2, 9))
                samples += [sample(role, segment, phase)] * count
                expected += [phase_mean] * count
    expected = np.array(expected)
    return samples, expected, (expected + rng.normal(0, 1, len(expected))).astype(np.float32)


def test_the_shrunk_mean_has_less_error_than_the_group_mean_and_the_parent_mean():
    errors = np.zeros(3)
    for seed in range(60):
        samples, expected, returns = hierarchy(seed, between=0.5)
        ours = shrunk(samples, returns)["country+phase"].mean_N
        wide = returns.astype(np.float64)
        extremes = []
        for fact in ("phase", "segment"):
            label = labels_of(samples, fact)
            extremes.append((np.bincount(label, wide) / np.bincount(label))[label])
        errors += [np.mean((guess - expected) ** 2) for guess in (ours, *extremes)]
    assert errors[0] < 0.85 * errors[1]
    assert errors[0] < 0.85 * errors[2]


def test_variance_components_are_unbiased_for_uneven_groups():
    rng = np.random.default_rng(1)
    child = np.repeat(np.arange(12, dtype=np.int32), [2, 9, 4, 1, 3, 7, 2, 2, 5, 8, 1, 6])
    parent = (child // 4).astype(np.int32)
    found = [
        variance_components(
            3.0 * parent + rng.normal(0, 2.0, 12)[child] + rng.normal(0, 1.5, len(child)), child, parent
        )
        for _ in range(2000)
    ]
    assert np.mean(found, axis=0) == pytest.approx([2.25, 4.0], rel=0.05)


def test_variance_components_of_balanced_groups_equal_the_textbook_formula():
    table = np.array([[3.0, 5.0, 4.0], [8.0, 9.0, 10.0], [1.0, 3.0, 2.0], [6.0, 6.0, 9.0]])  # four groups of three
    within = table.var(axis=1, ddof=1).mean()
    between = table.mean(axis=1).var(ddof=1) - within / 3
    child = np.repeat(np.arange(4, dtype=np.int32), 3)
    assert variance_components(table.ravel(), child, np.zeros(12, np.int32)) == pytest.approx((within, between))


returns_values = st.integers(-20, 20).map(float)
cases = st.lists(
    st.tuples(st.sampled_from("AB"), st.sampled_from("om"), st.integers(0, 2), returns_values), min_size=2, max_size=30
)


def reference(samples, returns, out, episodes=None):
    """One sample at a time: the shrunk mean of its groups, itself or its episode left out (``out``) or not."""
    owners = list(range(len(samples))) if episodes is None else list(episodes)
    facts = ("phase", "segment", "country")
    labels = {fact: labels_of(samples, fact) for fact in facts}
    unit = np.full(len(returns), np.nan)
    for role in {each.role for each in samples}:
        mine = [index for index, each in enumerate(samples) if each.role == role]
        if np.ptp(returns[mine]) > 0:
            unit[mine] = returns[mine] / np.std(returns[mine])
    components = {}
    for fine, coarse in (("segment", "country"), ("phase", "segment")):
        cells = sorted({(labels[fine][i], labels[coarse][i], owners[i]) for i in range(len(samples))})
        means = [
            np.mean([unit[i] for i in range(len(samples)) if (labels[fine][i], owners[i]) == (group, owner)])
            for group, _, owner in cells
        ]
        groups, parents, _ = (np.array(column, np.int32) for column in zip(*cells, strict=True))
        components[fine] = variance_components(np.array(means), groups, parents)
    guesses = []
    for index in range(len(samples)):
        guess = None
        for fine in ("country", "segment", "phase"):
            members = [i for i in range(len(samples)) if labels[fine][i] == labels[fine][index]]
            if out:
                members = [i for i in members if owners[i] != owners[index]]
            if fine == "country":
                guess = np.mean(returns[members]) if members else returns[index]
                continue
            within, between = components[fine]
            if members and between > 0:
                share = 1 / (1 + within / between / len({owners[i] for i in members}))
                guess = share * np.mean(returns[members]) + (1 - share) * guess
        guesses.append(guess)
    return guesses


@settings(max_examples=40, deadline=None)
@given(cases)
def test_shrunk_means_equal_a_plain_loop(case):
    samples = [sample(role, segment, phase) for role, segment, phase, _ in case]
    returns = np.array([value for *_, value in case])
    ours = shrunk(samples, returns)["country+phase"]
    assert ours.mean_N == pytest.approx(reference(samples, returns, out=False), abs=1e-7)
    assert ours.rest_N == pytest.approx(reference(samples, returns, out=True), abs=1e-7)
    assert ((ours.share_N >= 0) & (ours.share_N <= 1)).all()
    episodes = np.arange(len(case)) % 4
    shared = shrunk(samples, returns, episodes=episodes)["country+phase"]
    for found, out in ((shared.mean_N, False), (shared.rest_N, True)):
        assert found == pytest.approx(reference(samples, returns, out=out, episodes=episodes), abs=1e-7)


@settings(max_examples=30, deadline=None)
@given(cases, st.randoms(), st.integers(-32, 32), st.sampled_from([0.25, 2.0, 8.0]))
def test_shrunk_means_follow_permutation_shift_and_scale_of_one_country(case, random, shift, unit):
    samples = [sample(role, segment, phase) for role, segment, phase, _ in case]
    returns = np.array([value for *_, value in case], np.float32)
    plain = shrunk(samples, returns)["country+phase"].mean_N
    order = list(range(len(case)))
    random.shuffle(order)
    moved = shrunk([samples[i] for i in order], returns[order])["country+phase"].mean_N
    assert moved == pytest.approx(plain[order], abs=1e-6)
    mine = np.array([each.role == "A" for each in samples])
    other = np.where(mine, unit * returns + shift, returns)
    assert shrunk(samples, other)["country+phase"].mean_N == pytest.approx(
        np.where(mine, unit * plain + shift, plain), abs=1e-5
    )


def test_large_groups_keep_their_mean_and_groups_that_do_not_differ_take_their_parents():
    rng = np.random.default_rng(2)
    samples = [sample("A", "o", phase) for phase in range(4)] * 4000
    noise = rng.normal(0, 1, len(samples))
    apart = (noise + np.tile([0.0, 1.0, 2.0, 3.0], 4000)).astype(np.float32)
    level = shrunk(samples, apart)["country+phase"]
    assert level.share_N.min() > 0.999
    assert level.mean_N[:4] == pytest.approx(apart.reshape(4000, 4).mean(axis=0), abs=1e-3)
    # Each phase earned the same mean: less than chance lies between them.
    same = np.array([1.0, 3.0, 2.0, 2.0, 3.0, 1.0, 0.0, 4.0], np.float32)
    pairs = [sample("A", "o", index // 2) for index in range(8)]
    level = shrunk(pairs, same)["country+phase"]
    assert not level.share_N.any()
    assert level.mean_N.tolist() == [2.0] * 8


def share_of_own_mean(turns, apart, uneven=False):
    """Mean share over forty batches of eight groups of three episodes each; an episode's turns share its luck."""
    rng, shares = np.random.default_rng(turns), []
    for _ in range(40):
        samples, returns = [], []
        for episode in range(24):
            count = int(rng.integers(1, 2 * turns)) if uneven else turns
            luck = apart * (episode // 3) + rng.normal()
            samples += [Sample("A", episode, {"country": "A", "table": episode // 3})] * count
            returns += [luck + 0.2 * rng.normal() for _ in range(count)]
        episodes = np.array([each.episode for each in samples])
        keys = ("country+table", "country")
        shares.append(shrunk(samples, returns, keys, episodes)["country+table"].share_N.mean())
    return np.mean(shares)


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("turns", [1, 4, 8])
def test_luck_shared_by_an_episodes_turns_is_not_taken_for_a_difference_between_groups(turns, uneven):
    assert share_of_own_mean(turns, apart=0.0, uneven=uneven) < 0.3
    assert share_of_own_mean(turns, apart=5.0, uneven=uneven) > 0.95


def test_a_chain_of_one_episode_has_zero_variance_under_leave_one_out():
    samples = [sample("A", "o", phase, 0) for phase in (0, 0, 1, 1)]
    samples += [sample("B", "o", 0, 1)] * 2 + [sample("B", "o", 1, 2)] * 2
    returns = np.array([1, 2, 4, 8, 1, 2, 4, 8], np.float32)
    episodes = np.array([each.episode for each in samples])
    levels = levels_of(samples, CHAIN)
    behind = shrunk_levels(returns, levels, [each.role for each in samples], episodes)
    for leave_one_out in (False, True):
        advantages, statistics = group_advantages(
            returns,
            groups_of(samples, levels, 1),
            {},
            leave_one_out=leave_one_out,
            episodes=episodes,
            shrunk=behind,
        )
        alone = [leave_one_out, leave_one_out, False, False]  # B's groups are of one episode each, their parent of two
        assert [statistic.zero_variance for statistic in statistics] == alone
        assert advantages.astype(bool).tolist() == [not leave_one_out] * 4 + [True] * 4


@settings(deadline=None, max_examples=40)
@given(st.floats(-100, 100, width=32), st.integers(2, 30), st.booleans(), st.sampled_from(["group", "batch", "none"]))
def test_equal_returns_in_the_whole_chain_give_advantages_of_exactly_zero(value, count, leave_one_out, scale):
    samples = [sample("A", "om"[index % 2], index % 3, index) for index in range(count)]
    samples += [sample("B", "o", 0, count), sample("B", "o", 0, count + 1)]
    returns = np.array([value] * count + [0.0, 1.0], np.float32)
    levels = levels_of(samples, CHAIN)
    groups = groups_of(samples, levels, 2)
    behind = shrunk_levels(returns, levels, [each.role for each in samples])
    advantages, statistics = group_advantages(
        returns, groups, {}, scale=scale, leave_one_out=leave_one_out, shrunk=behind
    )
    assert not advantages[:count].any()
    assert advantages[count:].all()
    assert [statistic.zero_variance for statistic in statistics] == [group.key[0] == "A" for group in groups]


def test_a_constant_group_still_learns_from_its_parent():
    samples = [sample("A", "o", int(index > 1), index) for index in range(5)]
    returns = np.array([1, 1, 0, 4, 2], np.float32)
    levels = levels_of(samples, CHAIN)
    groups = groups_of(samples, levels, 2)
    advantages, statistics = group_advantages(
        returns, groups, {}, scale="group", shrunk=shrunk_levels(returns, levels, ["A"] * 5)
    )
    assert not statistics[0].zero_variance
    assert 0 < abs(advantages[0]) < 3
    assert advantages[0] == advantages[1]


def test_a_key_that_is_not_finer_than_the_next_is_refused():
    samples = [
        Sample("A", index, {"country": "A", "lineup": "xy"[index % 2], "phase": index % 3}) for index in range(6)
    ]
    with pytest.raises(GroupingError, match=r"'country\+lineup' lies in several groups"):
        shrunk(samples, range(6), ("country+lineup", "country+phase"))


def test_samples_that_a_level_does_not_group_have_their_parents_mean():
    samples = [Sample("A", i, {"country": "A", **({"fork": i % 2} if i < 4 else {})}) for i in range(6)]
    samples += [Sample("B", 6, {"country": "B"})] * 2
    returns = [0.0, 10.0, 1.0, 11.0, 5.0, 7.0, 100.0, 120.0]
    level = shrunk(samples, returns, ("country+fork", "country"))["country+fork"]
    own, whole = 0.5, np.mean(returns[:6])
    assert own < level.mean_N[0] < 1 < whole
    assert level.mean_N[4:] == pytest.approx([whole, whole, 110, 110])
    # With no coarser level they are their role's only.
    alone = shrunk(samples, returns, ("country+fork",))["country+fork"]
    assert alone.mean_N == pytest.approx([0.5, 10.5, 0.5, 10.5, 6, 6, 110, 110])
