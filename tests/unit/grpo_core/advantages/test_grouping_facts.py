"""Facts beyond plain keys: quantile bins, forks, tasks, and names that must not be confused with outcomes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_core.advantages.grouping import (
    RUNNING_LEVEL,
    Sample,
    fact_and_bins,
    key_column,
    parse_expression,
    required_facts,
    samples_of,
    with_outcomes,
)
from grpo_core.errors import GroupingError
from grpo_core.settings import GroupingSettings
from tests.unit.grpo_core.support.cases import episode_of, make_groups, ragged_turn


def difficulties(values, role="A"):
    return [Sample(role, index, {"country": role, "difficulty": value}) for index, value in enumerate(values)]


def bins_of(values, bins=4):
    return key_column(difficulties(values), f"difficulty:{bins}", f"country+difficulty:{bins}")


def test_quantile_bins_of_distinct_values_have_equal_sizes_and_increase():
    values = np.random.default_rng(0).permutation(40) / 7
    found = np.array(bins_of(values.tolist()))
    assert np.bincount(found).tolist() == [10, 10, 10, 10]
    assert np.sort(found[np.argsort(values)]).tolist() == found[np.argsort(values)].tolist()


def test_two_values_get_two_bins_even_if_their_counts_are_uneven():
    assert bins_of([1, 1, 1, 2], 2) == [0, 0, 0, 1]
    assert bins_of([1, 2, 2, 2], 2) == [0, 1, 1, 1]


@settings(deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=40), st.integers(2, 6), st.randoms())
def test_bins_keep_ties_and_order_of_values_and_ignore_units_and_order_of_samples(values, bins, random):
    found = bins_of(values, bins)
    assert set(found) <= set(range(bins))
    for one, its in zip(values, found, strict=True):
        for other, bin_of_other in zip(values, found, strict=True):
            assert (one != other) or (its == bin_of_other)
            assert (one >= other) or (its <= bin_of_other)
    assert bins_of([3 * value + 0.5 for value in values], bins) == found
    order = list(range(len(values)))
    random.shuffle(order)
    assert bins_of([values[index] for index in order], bins) == [found[index] for index in order]


def test_the_number_of_turns_of_a_game_does_not_change_the_bins():
    def bins(turns_of_the_first):
        samples = [Sample("A", 0, {"country": "A", "difficulty": 1})] * turns_of_the_first
        samples += [Sample("A", index, {"country": "A", "difficulty": index + 1}) for index in range(1, 6)]
        return key_column(samples, "difficulty:2", "country+difficulty:2")[turns_of_the_first:]

    assert bins(1) == bins(50) == [0, 0, 1, 1, 1]


def test_bins_are_made_within_a_country_and_finer_bins_nest_in_coarser_ones():
    samples = difficulties(range(8)) + difficulties(range(8), "B")
    fine = make_groups(samples, GroupingSettings(keys=("country+difficulty:4",), min_group_size=2))
    assert [(group.key, group.members) for group in fine[:2]] == [(("A", 0), (0, 1)), (("A", 1), (2, 3))]
    coarse = make_groups(samples, GroupingSettings(keys=("country+difficulty:2",), min_group_size=2))
    assert [group.key for group in coarse] == [("A", 0), ("A", 1), ("B", 0), ("B", 1)]
    for group in fine:
        assert sum(set(group.members) <= set(parent.members) for parent in coarse) == 1


@pytest.mark.parametrize(
    ("fact", "message"),
    [
        ("difficulty:", "how many quantile bins"),
        ("difficulty:1", "how many quantile bins"),
        ("difficulty:many", "how many quantile bins"),
        ("difficulty:-3", "how many quantile bins"),
        ("auto:3", "grouping.n_groups"),
        (":3", "empty or repeated"),
        ("country:3", "empty or repeated"),
    ],
)
def test_malformed_bin_expressions_are_refused(fact, message):
    with pytest.raises(GroupingError, match=message):
        parse_expression(f"country+{fact}", allow_outcome_keys=False)


def test_a_binned_country_does_not_keep_roles_apart():
    with pytest.raises(GroupingError, match="mix roles"):
        parse_expression("country:3+phase", allow_outcome_keys=False)


def test_text_and_non_finite_values_cannot_be_binned():
    with pytest.raises(GroupingError, match="'hard'"):
        bins_of(["hard", "easy"])
    with pytest.raises(GroupingError, match="nan"):
        bins_of([1.0, float("nan")])


def test_an_unknown_binned_fact_names_the_nearest():
    with pytest.raises(GroupingError, match=r"'dificulty'.*nearest: 'difficulty'"):
        make_groups(difficulties([1]), GroupingSettings(keys=("country+dificulty:4",)))


@pytest.mark.parametrize(("outcome", "before"), [("length", "scenario_length"), ("centers", "own_centers")])
def test_a_refused_outcome_key_names_the_similar_fact_known_before(outcome, before):
    for fact in (outcome, f"{outcome}:3"):
        with pytest.raises(GroupingError, match=f"'{outcome}', which is known only after.*'{before}'"):
            parse_expression(f"country+{fact}", allow_outcome_keys=False)
    assert parse_expression(f"country+{before}:3", allow_outcome_keys=False) == ("country", f"{before}:3")
    assert fact_and_bins(f"{before}:3") == (before, 3)


def test_allowed_outcome_keys_take_their_values_from_the_sample():
    rng = np.random.default_rng(0)
    episodes = [episode_of((ragged_turn(rng),) * (index + 1), reward=index) for index in range(4)]
    samples = samples_of(episodes, "episode")
    returns = np.array([4.0, 3.0, 2.0, 1.0], np.float32)
    known = with_outcomes(samples, episodes, returns)
    assert [each.facts["length"] for each in known] == [1, 2, 3, 4]
    assert known[0].facts["centers"] == 3.0
    settings = GroupingSettings(keys=("country+return:2",), allow_outcome_keys=True, min_group_size=2)
    assert [group.members for group in make_groups(known, settings)] == [(0, 1), (2, 3)]


def test_samples_without_a_saved_position_fall_back_to_the_coarser_key():
    samples = [Sample("A", i, {"country": "A", "fork": "p1" if i < 3 else "p2"}) for i in range(4)]
    samples += [Sample("A", i, {"country": "A"}) for i in range(4, 6)] + [Sample("B", 6, {"country": "B"})]
    groups = make_groups(samples, GroupingSettings(keys=("country+fork", "country"), min_group_size=2))
    assert [(group.key, group.members, group.decided) for group in groups] == [
        (("A", "p1"), (0, 1, 2), (0, 1, 2)),
        (("A",), (0, 1, 2, 3, 4, 5), (3, 4, 5)),
        (("B",), (6,), (6,)),
    ]
    assert groups[-1].level == RUNNING_LEVEL


def test_one_saved_position_played_by_two_countries_makes_two_groups():
    samples = [Sample(role, i, {"country": role, "fork": "p1"}) for i, role in enumerate("ABAB")]
    groups = make_groups(samples, GroupingSettings(keys=("country+fork",), min_group_size=2))
    assert [group.members for group in groups] == [(0, 2), (1, 3)]


def test_the_task_and_all_declared_keys_are_facts():
    rng = np.random.default_rng(0)
    turn = ragged_turn(rng, keys={"alliance": "FT", "own_centers": 5, "phase": "S1901M"})
    samples = samples_of([episode_of((turn,)), episode_of((turn,), name="block/1")], "segment")
    settings = GroupingSettings(keys=("country+task+alliance+lineup+own_centers",), min_group_size=2)
    (group,) = make_groups(samples, settings)
    assert group.key == ("FRANCE", "diplomacy", "FT", "l1", 5)


def test_fractional_numbers_are_distinguished_by_their_text():
    samples = difficulties([0.5, 0.25, 0.5, 0.25])
    groups = make_groups(samples, GroupingSettings(keys=("country+difficulty",), min_group_size=2))
    assert [(group.key, group.members) for group in groups] == [(("A", "0.5"), (0, 2)), (("A", "0.25"), (1, 3))]


def test_the_facts_a_configuration_requires_are_known_before_the_first_game():
    keys = ("country+fork+difficulty:4", "country+auto")
    assert required_facts(GroupingSettings(keys=keys, weight_key="country+season")) == {
        "country+fork+difficulty:4": ("country", "difficulty"),
        "country+auto": ("country",),
    }
    weighed = GroupingSettings(keys=("country",), group_weights="balanced", weight_key="country+season")
    assert required_facts(weighed) == {"country": ("country",), "country+season": ("country", "season")}
    with pytest.raises(GroupingError, match="mix roles"):
        required_facts(weighed.model_copy(update={"weight_key": "season"}))


def test_equal_whole_numbers_form_one_group_as_int_or_float():
    samples = difficulties([1, 1.0, 0.0, -0.0])
    groups = make_groups(samples, GroupingSettings(keys=("country+difficulty",), min_group_size=2))
    assert [(group.key, group.members) for group in groups] == [(("A", 1), (0, 1)), (("A", 0), (2, 3))]
