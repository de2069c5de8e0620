"""Advantages of whole batches: combinations of options, and the memory kept between batches."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_core.advantages.group_baseline import RunningBaseline
from grpo_core.advantages.grouping import CLUSTER_FACTS, Sample
from grpo_core.advantages.pipeline import AdvantageMemory, compute_advantages, group_names
from grpo_core.errors import GroupingError
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Episode
from tests.unit.grpo_core.support.cases import episode_of, ragged_turn

WHOLE = LearnerSettings(returns="episode")
PLAIN = {"keys": ("country",), "min_group_size": 2, "scale_rewards": "none"}
_TURN = ragged_turn(np.random.default_rng(0))


def episodes_of(rows):
    """(role, reward, facts) -> episodes of one turn."""
    out = []
    for index, (role, reward, facts) in enumerate(rows):
        plain = episode_of((_TURN,), role=role, name=f"b/{index}", reward=reward)
        out.append(
            Episode(
                **{
                    **{name: getattr(plain, name) for name in Episode.__dataclass_fields__},
                    "keys": {**plain.keys, **facts},
                }
            )
        )
    return out


def advantages_of(rows, memory=None, running=None, **options):
    arguments = () if memory is None else (memory,)
    return compute_advantages(
        episodes_of(rows), WHOLE, GroupingSettings(**{**PLAIN, **options}), running or {}, *arguments
    )


rows_of_two = st.lists(
    st.tuples(
        st.sampled_from("AB"),
        st.integers(-9, 9).map(float),
        st.integers(0, 5).map(lambda value: {"difficulty": value, "expected_return": value}),
    ),
    min_size=3,
    max_size=20,
)
OPTIONS = [
    {"keys": ("country+difficulty:3", "country"), "shrinkage": True},
    {"keys": ("country+difficulty:3", "country"), "shrinkage": True, "baseline": "leave_one_out"},
    {"keys": ("country+auto", "country"), "n_groups": 2},
    {"opponent_adjusted": True, "group_weights": "balanced"},
]


@pytest.mark.parametrize(
    ("options", "scale"), [*((options, "group") for options in OPTIONS), (OPTIONS[1], "batch"), (OPTIONS[2], "none")]
)
@settings(max_examples=15, deadline=None)
@given(rows_of_two, st.randoms())
def test_advantages_do_not_depend_on_sample_order_or_country_names(options, scale, rows, random):
    running = {"A": RunningBaseline(1.0, 4.0), "B": RunningBaseline(-1.0, 1.0)}
    plain = advantages_of(rows, running=running, scale_rewards=scale, **options).advantages
    order = list(range(len(rows)))
    random.shuffle(order)
    shuffled = advantages_of([rows[i] for i in order], running=running, scale_rewards=scale, **options).advantages
    assert shuffled == pytest.approx(plain[order], abs=1e-5)
    other = {"A": "B", "B": "A"}
    swapped = {other[role]: line for role, line in running.items()}
    renamed = advantages_of(
        [(other[role], *rest) for role, *rest in rows], running=swapped, scale_rewards=scale, **options
    )
    assert renamed.advantages == pytest.approx(plain, abs=1e-5)


@pytest.mark.parametrize("options", OPTIONS)
@settings(max_examples=15, deadline=None)
@given(rows_of_two, st.integers(-32, 32))
def test_a_constant_added_to_all_returns_changes_no_advantage(options, rows, shift):
    rows = [row for row in rows if sum(row[0] == other[0] for other in rows) > 1]
    if not rows:
        return
    moved = [(role, reward + shift, facts) for role, reward, facts in rows]
    plain = advantages_of(rows, **options).advantages
    assert advantages_of(moved, **options).advantages == pytest.approx(plain, abs=1e-4)
    scaled = [
        (role, 4 * reward, {**facts, "expected_return": 4 * facts["expected_return"]}) for role, reward, facts in rows
    ]
    assert advantages_of(scaled, **options).advantages == pytest.approx(4 * plain, abs=1e-4)


@pytest.mark.parametrize("options", OPTIONS)
@given(st.floats(-100, 100, width=32), st.integers(2, 12))
@settings(max_examples=15, deadline=None)
def test_equal_returns_give_advantages_of_exactly_zero_under_every_option(options, value, count):
    rows = [("A", value, {"difficulty": index % 3, "expected_return": 1.1}) for index in range(count)]
    computed = advantages_of(rows, scale_rewards="group", **options)
    assert not computed.advantages.any()
    assert all(statistic.zero_variance for statistic in computed.group_statistics)


def test_a_countrys_lone_sample_has_advantage_zero_until_a_running_baseline_exists():
    rows = [("A", 2.0, {"difficulty": 1})] * 3 + [("B", 5.0, {"difficulty": 1})]
    for options in OPTIONS[:3]:
        assert advantages_of(rows, **options).advantages[3] == 0
        known = advantages_of(rows, running={"B": RunningBaseline(4.0, 1.0)}, **options)
        assert known.advantages[3] == 1.0


def test_opponent_adjusted_returns_subtract_the_expected_return():
    rows = [("A", 3.0, {"expected_return": 3.0}), ("A", 1.0, {"expected_return": 1.0})]
    assert advantages_of(rows).advantages.tolist() == [1, -1]
    computed = advantages_of(rows, opponent_adjusted=True)
    assert computed.advantages.tolist() == [0, 0]
    assert computed.returns.tolist() == [0, 0]  # the running baselines follow the adjusted returns
    with pytest.raises(GroupingError, match="expected_return"):
        advantages_of([("A", 3.0, {})] * 2, opponent_adjusted=True)


def test_group_weights_multiply_advantages():
    rows = [("A", float(i), {}) for i in range(9)] + [("B", float(i), {}) for i in range(3)]
    plain, weighed = advantages_of(rows), advantages_of(rows, group_weights="balanced")
    assert plain.group_weights == {}
    assert weighed.group_weights == pytest.approx({"A": 2 / 3, "B": 2.0})
    factors = np.repeat([2 / 3, 2.0], [9, 3])
    assert weighed.advantages == pytest.approx(plain.advantages * factors)
    assert weighed.turn_advantages.tolist() == weighed.advantages.tolist()
    narrow = advantages_of(rows, group_weights="balanced", max_group_weight=1.5)
    assert narrow.group_weights == pytest.approx({"A": 7.5 / 9, "B": 1.5})


@pytest.mark.parametrize("kind", ["performance", "adaptive"])
def test_group_weights_depend_on_earlier_batches_only(kind):
    rng = np.random.default_rng(0)

    def batch(mean_of_b):
        return [("A", float(rng.normal(0, 1)), {}) for _ in range(50)] + [
            ("B", float(rng.normal(mean_of_b, 1)), {}) for _ in range(50)
        ]

    first = advantages_of(batch(0.0), group_weights=kind)
    assert first.group_weights == pytest.approx({"A": 1, "B": 1})
    second = advantages_of(batch(-9.0), first.memory, group_weights=kind)
    unlike = advantages_of(batch(9.0), first.memory, group_weights=kind)
    assert second.group_weights == unlike.group_weights
    third = advantages_of(batch(-9.0), second.memory, group_weights=kind)
    assert third.group_weights["B"] > 1.2 > 0.8 > third.group_weights["A"]


def test_group_weights_can_use_a_finer_key():
    rows = [("A", float(i), {"scenario": "easy" if i < 6 else "hard"}) for i in range(8)]
    computed = advantages_of(rows, group_weights="balanced", weight_key="country+scenario", max_group_weight=5.0)
    assert computed.group_weights == pytest.approx({"A+easy": 4 / 6, "A+hard": 2.0})
    with pytest.raises(GroupingError, match="allow_outcome_keys"):
        advantages_of(rows, group_weights="balanced", weight_key="country+return:2")


def clustered_rows(seed):
    rng = np.random.default_rng(seed)
    return [
        (role, float(rng.normal()), {"difficulty": int(10 * (i % 2) + rng.integers(0, 3)), "seats": int(i % 3)})
        for i, role in enumerate("AB" * 15)
    ]


def test_the_advantage_memory_survives_a_checkpoint_exactly():
    options = {"keys": ("country+adaptive", "country"), "group_weights": "adaptive", "n_groups": 3}
    memory = AdvantageMemory()
    for seed in range(3):
        memory = advantages_of(clustered_rows(seed), memory, **options).memory
    record, arrays = memory.export()
    restored = AdvantageMemory.restore(json.loads(json.dumps(record)), {**arrays, "other": np.zeros(1)})
    here, there = (advantages_of(clustered_rows(9), each, **options) for each in (memory, restored))
    assert here.groups == there.groups
    assert here.advantages.tolist() == there.advantages.tolist()
    assert here.group_weights == there.group_weights
    assert here.memory.export()[0] == there.memory.export()[0]
    with pytest.raises(KeyError):
        AdvantageMemory.restore(record, {})


def test_compute_advantages_does_not_change_the_memory_it_is_given():
    options = {"keys": ("country+adaptive", "country"), "group_weights": "adaptive", "n_groups": 3}
    memory = advantages_of(clustered_rows(0), **options).memory
    before = memory.export()
    advantages_of(clustered_rows(1), memory, **options)
    after = memory.export()
    assert after[0] == before[0]
    assert all(np.array_equal(after[1][name], before[1][name]) for name in before[1])


@pytest.mark.parametrize("kind", CLUSTER_FACTS)
def test_clusters_do_not_depend_on_returns(kind):
    rows = clustered_rows(0)
    options = {"keys": (f"country+{kind}", "country"), "n_groups": 3}
    other = [(role, -3 * reward + i, facts) for i, (role, reward, facts) in enumerate(rows)]
    assert advantages_of(rows, **options).groups == advantages_of(other, **options).groups


def test_outcome_keys_group_only_when_they_are_allowed():
    rows = [("A", float(reward), {}) for reward in (5, 1, 6, 2)]
    with pytest.raises(GroupingError, match="allow_outcome_keys"):
        advantages_of(rows, keys=("country+return:2",))
    biased = advantages_of(rows, keys=("country+return:2",), allow_outcome_keys=True)
    assert [group.members for group in biased.groups] == [(0, 2), (1, 3)]
    assert biased.advantages.tolist() == [-0.5, -0.5, 0.5, 0.5]


def test_clusters_can_be_weight_keys_without_being_baseline_keys():
    computed = advantages_of(clustered_rows(0), group_weights="balanced", weight_key="country+auto", n_groups=2)
    assert {group.level for group in computed.groups} == {"country"}
    assert set(computed.group_weights) == {"A+0", "A+1", "B+0", "B+1"}


def test_group_names_differ_for_values_that_contain_a_plus():
    facts = [("A+B", "C"), ("A", "B+C"), ("A+B", "C"), (1, "C"), ("1", "C")]
    samples = [Sample("F", i, {"country": "F", "x": x, "y": y}) for i, (x, y) in enumerate(facts)]
    names = group_names(samples, "country+x+y", GroupingSettings())
    assert names[0] == names[2]
    assert len(set(names)) == 4
    assert names[0] == "F+A+B+C"


def test_balanced_weights_count_episodes_and_not_turns():
    """A role whose games last longer must not weigh less for it."""

    def weights(lengths):
        episodes = [
            episode_of(
                tuple(ragged_turn(np.random.default_rng(i), reward=float(i)) for _ in range(lengths[i % 2])),
                role="AB"[i % 2],
                name=f"e/{i}",
            )
            for i in range(6)
        ]
        grouping = GroupingSettings(keys=("country",), min_group_size=2, group_weights="balanced")
        return compute_advantages(episodes, LearnerSettings(), grouping, {}).group_weights

    assert weights((2, 2)) == weights((1, 5)) == {"A": pytest.approx(1), "B": pytest.approx(1)}
