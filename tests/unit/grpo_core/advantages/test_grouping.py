import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_core.advantages.grouping import RUNNING_LEVEL, Sample, samples_of
from grpo_core.errors import GroupingError
from grpo_core.settings import OUTCOME_KEYS, GroupingSettings
from tests.unit.grpo_core.support.cases import episode_of, make_groups, ragged_turn

CHAIN = GroupingSettings(keys=("country+phase", "country+segment", "country"), min_group_size=3)


def samples_of_facts(*facts: tuple[str, ...]) -> list[Sample]:
    """One sample an episode: role, phase and segment."""
    return [
        Sample(role, index, {"country": role, "phase": phase, "segment": segment})
        for index, (role, phase, segment) in enumerate(facts)
    ]


def test_samples_of_small_groups_fall_back_to_the_coarser_key_with_all_its_members():
    samples = samples_of_facts(
        *[("FRANCE", "S1901M", "opening")] * 4, *[("FRANCE", "F1901M", "opening")] * 2, ("ITALY", "S1901M", "opening")
    )
    groups = make_groups(samples, CHAIN)
    assert [(group.level, group.key, group.members, group.decided) for group in groups] == [
        ("country+phase", ("FRANCE", "S1901M"), (0, 1, 2, 3), (0, 1, 2, 3)),
        ("country+segment", ("FRANCE", "opening"), (0, 1, 2, 3, 4, 5), (4, 5)),
        (RUNNING_LEVEL, ("ITALY",), (6,), (6,)),
    ]


def test_the_fallback_chain_is_followed_to_its_last_key():
    samples = samples_of_facts(
        ("FRANCE", "S1901M", "opening"), ("FRANCE", "F1901M", "opening"), ("FRANCE", "S1904M", "middle")
    )
    (group,) = make_groups(samples, CHAIN)
    assert (group.level, group.decided) == ("country", (0, 1, 2))


def test_turns_of_one_episode_alone_never_form_a_group():
    facts = {"country": "FRANCE", "segment": "opening"}
    endgame = [Sample("FRANCE", 0, {**facts, "phase": f"S19{year:02}M", "segment": "endgame"}) for year in range(9, 15)]
    others = [Sample("FRANCE", episode, {**facts, "phase": "S1901M"}) for episode in range(1, 3)]
    (group,) = make_groups([*endgame, *others], CHAIN)
    assert (group.level, group.decided) == ("country", tuple(range(8)))
    two = make_groups([*endgame, *others[:1]], CHAIN)
    assert [each.level for each in two] == [RUNNING_LEVEL]


@given(
    st.lists(
        st.tuples(st.sampled_from("ABC"), st.sampled_from(["S1901M", "F1901M", "W1901A"]), st.sampled_from(["o", "m"])),
        max_size=60,
    ),
    st.integers(2, 6),
)
def test_each_sample_belongs_to_one_group_of_its_own_role(facts, smallest):
    samples = samples_of_facts(*facts)
    groups = make_groups(samples, CHAIN.model_copy(update={"min_group_size": smallest}))
    assert sorted(index for group in groups for index in group.decided) == list(range(len(samples)))
    for group in groups:
        assert {samples[index].role for index in group.members} == {group.key[0]}
        assert set(group.decided) <= set(group.members)
        assert group.level == RUNNING_LEVEL or len(group.members) >= smallest


@given(st.permutations(range(12)))
def test_groups_do_not_depend_on_the_order_of_samples(order):
    samples = samples_of_facts(
        *[("AB"[index % 2], ["S1901M", "F1901M"][index % 3 == 0], "om"[index > 8]) for index in range(12)]
    )

    def named(groups, of):
        return {
            (
                group.level,
                group.key,
                tuple(sorted(of[i] for i in group.members)),
                tuple(sorted(of[i] for i in group.decided)),
            )
            for group in groups
        }

    shuffled = make_groups([samples[index] for index in order], CHAIN)
    assert named(shuffled, order) == named(make_groups(samples, CHAIN), list(range(12)))


@pytest.mark.parametrize("fact", sorted(OUTCOME_KEYS))
def test_outcome_keys_are_refused_unless_allowed(fact):
    samples = [Sample("FRANCE", 0, {"country": "FRANCE", fact: 1})] * 3
    with pytest.raises(GroupingError, match="allow_outcome_keys"):
        make_groups(samples, GroupingSettings(keys=(f"country+{fact}",)))
    allowed = GroupingSettings(keys=(f"country+{fact}",), allow_outcome_keys=True, min_group_size=3)
    assert make_groups(samples, allowed)[0].decided == (0, 1, 2)


@pytest.mark.parametrize("keys", [("phase",), ("country+phase", "segment"), ("lineup+phase",)])
def test_a_key_chain_that_would_mix_roles_is_refused(keys):
    with pytest.raises(GroupingError, match="mix roles"):
        make_groups(samples_of_facts(("FRANCE", "S1901M", "opening")), GroupingSettings(keys=keys))


@pytest.mark.parametrize("expression", ["country+", "country++phase", "country+country"])
def test_malformed_key_expressions_are_refused(expression):
    with pytest.raises(GroupingError, match="empty or repeated"):
        make_groups([], GroupingSettings(keys=(expression,)))


def test_an_unknown_fact_names_the_nearest():
    with pytest.raises(GroupingError, match=r"'phsae'.*nearest: 'phase'"):
        make_groups(samples_of_facts(("FRANCE", "S1901M", "opening")), GroupingSettings(keys=("country+phsae",)))


def test_a_fact_of_turns_is_refused_for_episode_returns():
    episode = episode_of((ragged_turn(np.random.default_rng(0)),))
    with pytest.raises(GroupingError, match="per_phase"):
        make_groups(samples_of([episode], "episode"), CHAIN)


def test_a_turn_cannot_override_its_episodes_country():
    turn = ragged_turn(np.random.default_rng(0), keys={"country": "ITALY", "phase": "S1901M"})
    (only,) = samples_of([episode_of((turn,), role="FRANCE")], "per_phase")
    assert only.facts == {"task": "diplomacy", "country": "FRANCE", "phase": "S1901M", "lineup": "l1"}
