"""The variance that grouping keys explain, compared with plain loops over the samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_core.advantages.explained_variance import MAX_CANDIDATES, candidate_keys, explained_sums
from grpo_core.advantages.grouping import Sample
from grpo_core.settings import GroupingSettings

PLAIN = GroupingSettings(keys=("country+phase", "country"), min_group_size=3)

turns = st.lists(
    st.tuples(
        st.integers(0, 5),  # the episode; its country is that of its parity
        st.sampled_from(["spring", "fall"]),
        st.integers(3, 5),
        st.integers(-30, 30).map(float),
    ),
    min_size=2,
    max_size=30,
)


def samples_of(case):
    return [
        Sample(
            "AB"[episode % 2],
            episode,
            {"country": "AB"[episode % 2], "phase": phase, "own_centers": centers, "task": "game"},
        )
        for episode, phase, centers, _ in case
    ]


def key_of(expression, sample):
    return tuple(sample.facts[fact] for fact in expression.split("+"))


@settings(max_examples=60, deadline=None)
@given(turns)
def test_explained_sums_equal_a_plain_loop(case):
    samples, values = samples_of(case), [value for *_, value in case]
    found = explained_sums(samples, np.array(values, np.float32), PLAIN)
    used = [
        i
        for i, one in enumerate(samples)
        if any(other.role == one.role and other.episode != one.episode for other in samples)
    ]
    assert found.samples == len(used)
    center = np.mean([values[i] for i in used]) if used else 0.0
    for expression in (*found.keys, *found.same):
        sums = found.keys[found.same.get(expression, expression)]
        between = within = left_out = by_country = 0.0
        for i in used:
            mine = [j for j in used if key_of(expression, samples[j]) == key_of(expression, samples[i])]
            others = [values[j] for j in mine if samples[j].episode != samples[i].episode]
            if len({samples[j].episode for j in mine}) < 3 or not others:
                by_country += 1
                others = [
                    values[j]
                    for j in used
                    if samples[j].role == samples[i].role and samples[j].episode != samples[i].episode
                ]
            mean = np.mean([values[j] for j in mine])
            between += (mean - center) ** 2
            within += (values[i] - mean) ** 2
            left_out += (values[i] - np.mean(others)) ** 2
        assert (sums.between, sums.within, sums.left_out) == pytest.approx((between, within, left_out), abs=1e-4)
        assert sums.by_country == by_country
        assert sums.groups == len({key_of(expression, samples[i]) for i in used})


def test_candidate_keys_are_the_declared_ones_then_all_pairs_of_plain_facts():
    case = [(episode, "spring" if episode % 3 else "fall", 3 + episode % 2, 0.0) for episode in range(6)]
    assert candidate_keys(samples_of(case), PLAIN) == (
        "country+phase",
        "country",
        "country+own_centers",
        "country+task",
        "country+own_centers+phase",
        "country+phase+task",
        "country+own_centers+task",  # neither varies within a role
    )


def test_identifiers_outcomes_and_facts_that_are_not_plain_are_no_candidate_keys():
    facts = {"seed": 0, "return": 1, "auto": 2, "rating": 0.5, "fork": "x", "odd+name": "y", "lineup": "l"}
    samples = [
        Sample("A", n, {"country": "A", **facts, "seed": n, **({} if n else {"only": "here"})}) for n in range(4)
    ]
    del samples[1].facts["fork"]  # type: ignore[attr-defined]
    settings_ = GroupingSettings(keys=("country",), allow_outcome_keys=True)
    assert candidate_keys(samples, settings_) == ("country", "country+lineup")


def test_candidate_keys_are_bounded_and_repeat_no_declared_key_in_another_order():
    facts = {f"fact{n}": n % 3 for n in range(20)}
    samples = [Sample("A", n, {"country": "A", **facts, "fact0": n // 2}) for n in range(8)]
    keys = candidate_keys(samples, GroupingSettings(keys=("fact1+country",)))
    assert len(keys) == MAX_CANDIDATES
    assert keys[:3] == ("fact1+country", "country", "country+fact0")
    assert "country+fact1" not in keys


def test_keys_that_make_the_same_groups_share_their_sums():
    case = [(episode, phase, 3, float(episode)) for episode in range(6) for phase in ("spring", "fall")]
    found = explained_sums(samples_of(case), np.array([value for *_, value in case], np.float32), PLAIN)
    assert found.same["country+own_centers"] == "country"
    assert found.same["country+own_centers+phase"] == "country+phase"
    assert set(found.keys) == {"country+phase", "country"}


def test_turns_of_one_episode_do_not_explain_each_other():
    # Turns of one episode have equal returns; episodes of one group differ.
    rng = np.random.default_rng(0)
    luck = np.repeat(rng.normal(size=200), 10)
    samples = [Sample("A", index // 10, {"country": "A", "table": index // 20}) for index in range(2000)]
    pairs = GroupingSettings(keys=("country+table",), min_group_size=2)
    sums = explained_sums(samples, luck.astype(np.float32), pairs).keys
    total = sums["country"].between + sums["country"].within
    assert sums["country+table"].between / total > 0.4
    assert 1 - sums["country+table"].left_out / total < -0.5


def test_a_key_that_determines_the_return_explains_its_share_of_variance():
    rng = np.random.default_rng(1)
    phases = rng.integers(0, 4, 400)
    samples = [Sample("A", index, {"country": "A", "phase": int(phase)}) for index, phase in enumerate(phases)]
    returns = (phases + rng.normal(0, 0.5, 400)).astype(np.float32)
    sums = explained_sums(samples, returns, PLAIN).keys["country+phase"]
    share = np.var(phases) / (np.var(phases) + 0.25)
    assert 1 - sums.left_out / (sums.between + sums.within) == pytest.approx(share, abs=0.03)
    assert sums.by_country == 0


def test_samples_without_the_fact_fall_back_to_their_country():
    samples = [Sample("A", n, {"country": "A", **({"fork": "f"} if n < 3 else {})}) for n in range(6)]
    returns = np.array([1, 1, 1, 5, 6, 7], np.float32)
    sums = explained_sums(samples, returns, GroupingSettings(keys=("country+fork",), min_group_size=3)).keys
    assert sums["country+fork"].groups == 1
    assert sums["country+fork"].by_country == 3
    rest = [5 - 16 / 5, 6 - 3, 7 - 14 / 5]
    assert sums["country+fork"].left_out == pytest.approx(sum(error**2 for error in rest))


def test_samples_without_another_episode_of_their_role_explain_nothing():
    samples = [Sample(role, n, {"country": role}) for n, role in enumerate("AB")]
    found = explained_sums(samples, np.array([1, 2], np.float32), GroupingSettings(keys=("country",)))
    assert found.samples == 0
    assert found.keys["country"].left_out == 0
