from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_core.advantages.clustering import (
    adaptive_labels,
    dirichlet_labels,
    feature_names,
    kmeans_labels,
    with_clusters,
)
from grpo_core.advantages.grouping import Sample, required_facts
from grpo_core.errors import GroupingError
from grpo_core.settings import GroupingSettings
from tests.unit.grpo_core.support.cases import make_groups


def blobs(seed, centres, each=30, width=0.1):
    rng = np.random.default_rng(seed)
    kind = np.repeat(np.arange(len(centres)), each)
    rng.shuffle(kind)
    return np.asarray(centres, np.float64)[kind] + rng.normal(0, width, (len(kind), len(centres[0]))), kind


CENTRES = [[0.0, 0.0], [0.0, 10.0], [5.0, 0.0]]


def same_partition(left, right):
    pairs = set(zip(np.asarray(left).tolist(), np.asarray(right).tolist(), strict=True))
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def samples_from(values, role="A", names=("rating", "seats")):
    return [
        Sample(role, index, {"country": role, "name": "x", **dict(zip(names, row, strict=True))})
        for index, row in enumerate(np.asarray(values).tolist())
    ]


def config(kind, **options):
    return GroupingSettings(**{"keys": (f"country+{kind}", "country"), "min_group_size": 2, "n_groups": 3, **options})


@pytest.mark.parametrize("kind", ["auto", "adaptive", "dirichlet"])
def test_clusters_that_lie_apart_are_found(kind):
    values, truth = blobs(0, CENTRES)
    found, _ = with_clusters(samples_from(values), config(kind), {})
    assert same_partition([each.facts[kind] for each in found], truth)


@pytest.mark.parametrize("kind", ["auto", "adaptive", "dirichlet"])
def test_roles_are_clustered_separately(kind):
    first, _ = blobs(1, CENTRES)
    second, _ = blobs(2, [[100.0, 7.0], [200.0, 7.0], [100.0, 9.0]])
    alone, _ = with_clusters(samples_from(first), config(kind), {})
    both, memory = with_clusters([*samples_from(first), *samples_from(second, "B")], config(kind), {})
    assert [each.facts[kind] for each in both[: len(first)]] == [each.facts[kind] for each in alone]
    assert set(memory) == ({"A", "B"} if kind == "adaptive" else set())
    groups = make_groups(both, config(kind))
    assert [group.key[0] for group in groups].count("A") == 3
    assert all(len({both[index].role for index in group.members}) == 1 for group in groups)


@pytest.mark.parametrize("labels", [kmeans_labels, dirichlet_labels])
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 100), st.randoms())
def test_cluster_labels_ignore_order_units_and_constant_features(labels, seed, random):
    values = np.random.default_rng(seed).integers(0, 4, (20, 2)).astype(np.float64)
    plain = labels(values, 3, 0)
    order = list(range(len(values)))
    random.shuffle(order)
    assert labels(values[order], 3, 0).tolist() == plain[order].tolist()
    assert labels(values * [8.0, 0.25] + 3, 3, 0).tolist() == plain.tolist()
    padded = np.hstack([np.full((20, 1), 0.1), values])
    assert labels(padded, 3, 0).tolist() == plain.tolist()
    assert set(plain) == set(range(plain.max() + 1))


def test_the_number_of_dirichlet_groups_is_inferred():
    for count in (1, 2, 4):
        centres = [[20.0 * index, (-1) ** index * 10.0] for index in range(count)]
        values, truth = blobs(3, centres, each=60, width=1.0)
        found = dirichlet_labels(values, 8, 0)
        if count > 1:
            assert same_partition(found, truth)
    # One cloud of whole numbers is not split into single points.
    assert len(set(dirichlet_labels(np.repeat([[1.0], [1.0], [2.0]], 20, axis=0), 8, 0))) == 2


@pytest.mark.parametrize("kind", ["auto", "adaptive", "dirichlet"])
@pytest.mark.parametrize("values", [[[1.0, 2.0]], [[1.0, 2.0]] * 5, [[1.0, 2.0], [3.0, 2.0]]])
def test_clustering_works_with_fewer_samples_than_clusters(kind, values):
    found, memory = with_clusters(samples_from(values), config(kind, n_groups=6), {})
    labels = [each.facts[kind] for each in found]
    if kind != "dirichlet":  # which may well take two points for one wide cloud
        assert same_partition(labels, [row[0] for row in values])
    assert len(set(labels)) <= len({row[0] for row in values})
    again, _ = with_clusters(samples_from(values), config(kind, n_groups=6), memory)
    assert [each.facts[kind] for each in again] == labels


def adaptive(values, past, **options):
    return adaptive_labels(np.asarray(values, np.float64), ("rating", "seats"), past, config("adaptive", **options))


def test_adaptive_labels_follow_clusters_that_drift():
    past, first = None, None
    for step in range(40):
        # All centres move by more than their distance; each batch comes in another order.
        values, truth = blobs(step, [[x + 0.4 * step, y - 0.4 * step] for x, y in CENTRES], each=15)
        labels, past = adaptive(values, past, cluster_window=45)
        assert same_partition(labels, truth)
        named = dict(zip(truth.tolist(), labels.tolist(), strict=True))
        first = first or named
        assert named == first
    assert past.centroids_KF[first[0]] == pytest.approx([15.6, -15.6], abs=0.5)


def test_a_cluster_that_appears_later_gets_a_new_label():
    values, truth = blobs(0, CENTRES[:2])
    labels, past = adaptive(np.round(values), None)
    assert set(labels) == {0, 1}
    later, truth_later = blobs(1, CENTRES)
    named = dict(zip(truth.tolist(), labels.tolist(), strict=True))
    after, past = adaptive(np.round(later), past)
    assert dict(zip(truth_later.tolist(), after.tolist(), strict=True)) == {**named, 2: 2}
    # And a batch without it does not take its label away.
    again, past = adaptive(np.round(values), past)
    assert again.tolist() == labels.tolist()
    assert len(past.centroids_KF) == 3


def test_the_cluster_window_keeps_the_latest_samples():
    values, _ = blobs(0, CENTRES)
    _, past = adaptive(values, None, cluster_window=50)
    assert past.window_WF.tolist() == values[-50:].tolist()
    _, later = adaptive(values[:10], past, cluster_window=50)
    assert later.window_WF.tolist() == [*values[-40:].tolist(), *values[:10].tolist()]
    assert past.window_WF.tolist() == values[-50:].tolist()  # the older memory is untouched


def test_a_change_of_features_discards_the_cluster_memory():
    values, truth = blobs(0, CENTRES)
    _, past = adaptive(values, None)
    samples = samples_from(values, names=("rating", "skill"))
    found, after = with_clusters(samples, config("adaptive"), {"A": past})
    assert after["A"].features == ("rating", "skill")
    assert len(after["A"].window_WF) == len(values)
    assert same_partition([each.facts["adaptive"] for each in found], truth)


def test_cluster_features_are_numbers_that_all_samples_have_and_no_outcomes():
    facts = {"country": "A", "name": "x", "rating": 3, "fork": 7, "centers": 9, "length": 2, "own_centers": 4}
    samples = [Sample("A", 0, facts), Sample("A", 1, {**facts, "extra": 1.0})]
    assert feature_names(samples, config("auto")) == ("own_centers", "rating")
    assert feature_names(samples, config("auto", cluster_features=("rating",))) == ("rating",)


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ("centers", "known only after"),
        ("name", "not a number"),
        ("ratng", "nearest: 'rating'"),
    ],
)
def test_unusable_cluster_features_are_refused_by_name(feature, message):
    with pytest.raises(GroupingError, match=message):
        with_clusters(samples_from([[1, 2]]), config("auto", cluster_features=(feature,)), {})


def test_clustering_without_a_numeric_fact_is_refused_and_unused_clusters_are_not_made():
    bare = [Sample("A", 0, {"country": "A", "lineup": "l1"})]
    with pytest.raises(GroupingError, match="at least one number"):
        with_clusters(bare, config("auto"), {})
    assert with_clusters(bare, GroupingSettings(keys=("country",)), {}) == (tuple(bare), {})


def playing(seed, episodes=12, turns=3):
    """Turns of episodes with a rating each, and a count of centres that changes from turn to turn."""
    rng = np.random.default_rng(seed)
    out = []
    for episode in range(episodes):
        facts = {"country": "A", "rating": int(rng.integers(100))}
        counts = [{"own_centers": count} for count in rng.integers(18, size=turns).tolist()]
        out += [Sample("A", episode, {**facts, **count}, frozenset(count)) for count in counts]
    return out


@pytest.mark.parametrize("key", ["auto", "adaptive", "dirichlet", "rating:4"])
def test_a_later_turn_does_not_change_the_groups_of_earlier_turns(key):
    settings = GroupingSettings(keys=(f"country+{key}", "country"), min_group_size=2, n_groups=4)

    def groups(samples):
        found, _ = with_clusters(samples, settings, {})
        return make_groups(found, settings)

    for seed in range(2):
        samples = playing(seed)
        unchanged = groups(samples)
        for last in range(2, len(samples), 3):
            facts = samples[last].facts
            raised = replace(samples[last], facts={**facts, "own_centers": facts["own_centers"] + 30})
            assert groups([*samples[:last], raised, *samples[last + 1 :]]) == unchanged


@pytest.mark.parametrize("kind", ["auto", "adaptive", "dirichlet"])
def test_the_number_of_turns_of_an_episode_does_not_change_clusters(kind):
    samples = playing(1)
    found, _ = with_clusters(samples, config(kind), {})
    longer, _ = with_clusters([*samples[:1] * 40, *samples], config(kind), {})
    assert [each.facts[kind] for each in longer[40:]] == [each.facts[kind] for each in found]


@pytest.mark.parametrize(
    ("key", "features"), [("own_centers:4", ()), ("auto", ("own_centers",)), ("auto", ("rating", "own_centers"))]
)
def test_bins_and_clusters_of_turn_facts_require_allow_outcome_keys(key, features):
    samples = playing(2)
    options = {"keys": (f"country+{key}", "country"), "cluster_features": features}
    settings = GroupingSettings(**options)
    for refused in (
        lambda: make_groups(with_clusters(samples, settings, {})[0], settings),
        lambda: required_facts(settings, ["own_centers"]),
    ):
        with pytest.raises(GroupingError, match="'own_centers', which changes within an episode") as refusal:
            refused()
        assert "\n" not in str(refusal.value)
    allowed = GroupingSettings(**options, allow_outcome_keys=True)
    assert make_groups(with_clusters(samples, allowed, {})[0], allowed)
    assert required_facts(allowed, ["own_centers"])


def test_clusters_require_a_number_known_at_the_episodes_start():
    samples = [replace(each, facts={"country": "A", "own_centers": 3}) for each in playing(3)]
    with pytest.raises(GroupingError, match="known at an episode's start, and these episodes have only country;"):
        with_clusters(samples, config("auto"), {})


@pytest.mark.parametrize("kind", ["auto", "adaptive", "dirichlet"])
def test_clusters_of_returns_take_each_turns_own_return(kind):
    returns = [0.0, 10.0] * 6  # the first and the second turn of six episodes
    samples = [Sample("A", index // 2, {"country": "A", "return": value}) for index, value in enumerate(returns)]
    options = {"n_groups": 2, "cluster_features": ("return",), "allow_outcome_keys": True}
    found, _ = with_clusters(samples, GroupingSettings(keys=(f"country+{kind}", "country"), **options), {})
    assert same_partition([each.facts[kind] for each in found], returns)
