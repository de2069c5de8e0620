"""Blocks against anchors alone: an exact, deterministic share, the same for every country."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from opponents.matchmaking.lineup import EXTRA_BLOCKS_FROM, extra_block, is_against_anchors, learner_of_block
from opponents.matchmaking.matchmaker import Matchmaker
from opponents.matchmaking.strategies import anchors_among
from opponents.population.member import PopulationError
from opponents.settings import OpponentsSettings
from services.environments.diplomacy.position import POWERS
from tests.unit.opponents.league_cases import member, population_of, snapshot
from tests.unit.opponents.world_cases import diplomacy

FOLDER = Path("unused")  # nothing is saved
SHARES = st.sampled_from([0.0, 0.05, 0.1, 0.125, 0.3, 1 / 3, 0.5, 0.77, 1.0])


@given(share=SHARES, first=st.integers(0, 5000), blocks=st.integers(1, 60), place=st.integers(0, 6))
@examples(max_examples=50)
def test_every_window_of_a_countrys_blocks_has_its_exact_share(share, first, blocks, place):
    found = sum(is_against_anchors(share, number, place, 7) for number in range(first, first + blocks))
    exact = blocks * Fraction(str(share))
    assert floor(exact) <= found <= ceil(exact)


@given(share=SHARES, rounds=st.integers(1, 40), count=st.sampled_from([2, 3, 7]))
@examples(max_examples=30)
def test_all_roles_together_have_the_exact_share(share, rounds, count):
    found = sum(is_against_anchors(share, number, place, count) for number in range(rounds) for place in range(count))
    assert found == floor(count * rounds * Fraction(str(share)))


@given(seed=st.integers(0, 2**31), share=st.sampled_from([0.1, 0.25, 0.5]), first=st.integers(0, 300))
@examples(max_examples=10)
def test_countries_have_the_same_number_over_every_window_of_the_schedule(seed, share, first):
    settings = OpponentsSettings(anchor_share=share)
    matchmaker = Matchmaker(population_of(FOLDER, member("random"), snapshot(3)), diplomacy(), 1, seed, settings)
    rounds = int(1 / share)
    counts = dict.fromkeys(POWERS, 0)
    for index in range(7 * first, 7 * (first + rounds)):
        counts[learner_of_block(seed, index, POWERS)] += matchmaker.draw(index).strategy == "anchors"
    assert set(counts.values()) == {1}


def test_extra_blocks_have_the_share_across_updates_and_within_one(tmp_path):
    settings = OpponentsSettings(anchor_share=0.25)
    matchmaker = Matchmaker(population_of(tmp_path, member("random"), snapshot(3)), diplomacy(), 1, 0, settings)
    for power in POWERS:
        alone = [matchmaker.draw(extra_block(update, power, 0, POWERS)).strategy for update in range(8)]
        together = [matchmaker.draw(extra_block(5, power, number, POWERS)).strategy for number in range(8)]
        assert alone.count("anchors") == together.count("anchors") == 2
    assert extra_block(0, "AUSTRIA", 0, POWERS) == EXTRA_BLOCKS_FROM


def test_a_block_against_anchors_has_only_anchors(tmp_path):
    population = population_of(tmp_path, member("random"), member("dumbbot"), member("gpt", "remote"), snapshot(3))
    for anchors, allowed in (
        ((), {"bot/random", "bot/dumbbot"}),
        (("dumbbot", "remote:gpt"), {"bot/dumbbot", "remote/gpt"}),
    ):
        settings = OpponentsSettings(
            members={"random": 1, "dumbbot": 1, "remote:gpt": 1},
            anchor_share=0.5, anchors=anchors, self_play_seats=2,
        )  # fmt: skip
        matchmaker = Matchmaker(population, diplomacy(), 1, 4, settings)
        drawn = [matchmaker.draw(index) for index in range(70)]
        opponents = {m for d in drawn if d.strategy == "anchors" for _, m in d.block.opponents}
        assert opponents == allowed
        assert {m for d in drawn if d.strategy == "weighted" for _, m in d.block.opponents} > allowed
        assert sum(d.strategy == "anchors" for d in drawn) == 35


def test_anchors_are_named_by_kind_or_by_id():
    members = (member("random"), member("gpt", "remote"), snapshot(3))
    assert [m.id for m in anchors_among(members, ())] == ["bot/random"]
    assert [m.id for m in anchors_among(members, ("policy/v3", "remote:gpt"))] == ["remote/gpt", "policy/v3"]


def test_a_snapshot_named_as_anchor_stays_drawable_despite_newer_ones(tmp_path):
    settings = OpponentsSettings(anchor_share=1.0, anchors=("policy/v1",), max_snapshots=2)
    population = population_of(tmp_path, member("random"), *map(snapshot, range(1, 6)))
    matchmaker = Matchmaker(population, diplomacy(), 1, 0, settings)
    assert {who for _, who in matchmaker.block(0).opponents} == {"policy/v1"}
    assert [m.id for m in matchmaker.drawable()] == ["bot/random", "policy/v1", "policy/v4", "policy/v5"]


def test_missing_anchors_are_refused(tmp_path):
    settings = OpponentsSettings(anchor_share=1.0, anchors=("policy/v9",))
    with pytest.raises(PopulationError, match=r"none of the anchors \(policy/v9\)"):
        Matchmaker(population_of(tmp_path, member("random")), diplomacy(), 1, 0, settings).block(0)
    with pytest.raises(ValueError, match="'dumbbot' is none of the members"):
        OpponentsSettings(anchors=("dumbbot",))
    with pytest.raises(ValueError, match="name the anchors"):
        OpponentsSettings(members={"remote:gpt": 1.0}, anchor_share=0.5)
