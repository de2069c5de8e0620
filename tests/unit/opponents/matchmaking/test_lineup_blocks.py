"""Line-up blocks: exact rotation, draws by weight, and no dependence beyond seed, index and members."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from grpo_core.seeds import derive_seed
from opponents.matchmaking.lineup import (
    EXTRA_BLOCKS_FROM,
    EXTRA_BLOCKS_PER_UPDATE,
    extra_block,
    learner_of_block,
    number_of_block,
)
from opponents.matchmaking.matchmaker import Matchmaker
from opponents.matchmaking.strategies import draw_index
from opponents.population.member import PopulationError
from opponents.population.population import Population
from opponents.settings import OpponentsSettings
from services.environments.diplomacy.position import POWERS
from tests.unit.opponents.league_cases import member, population_of
from tests.unit.opponents.world_cases import Cards, Deals, diplomacy

NEWEST = OpponentsSettings(max_snapshots=1)


@pytest.fixture
def population(tmp_path):
    made = Population(tmp_path / "population.json")
    made.add_bot("random", weight=1.0)
    made.add_bot("dumbbot", weight=3.0)
    made.add_bot("hold", weight=0.0)
    return made


@given(st.integers(0, 2**63 - 1), st.integers(0, 10_000))
def test_each_run_of_seven_blocks_holds_every_country_once(seed, run):
    assert sorted(learner_of_block(seed, 7 * run + place, POWERS) for place in range(7)) == sorted(POWERS)


def test_runs_of_seven_differ_in_order():
    orders = {tuple(learner_of_block(0, 7 * run + place, POWERS) for place in range(7)) for run in range(20)}
    assert len(orders) > 10


def test_extra_blocks_have_distinct_numbers_and_the_requested_country(population):
    asked = [(update, power, number) for update in range(3) for power in POWERS for number in (0, 1, 9999)]
    indices = [extra_block(*each, POWERS) for each in asked]
    assert len(set(indices)) == len(asked)
    assert min(indices) == EXTRA_BLOCKS_FROM
    matchmaker = Matchmaker(population, diplomacy(), num_generations=8, seed=5)
    blocks = [matchmaker.block(index) for index in indices]
    assert [block.role for block in blocks] == [power for _, power, _ in asked]
    assert len({block.seed for block in blocks}) == len(blocks)
    with pytest.raises(ValueError, match="0 to 9999"):
        extra_block(0, "FRANCE", EXTRA_BLOCKS_PER_UPDATE, POWERS)


def test_a_block_has_six_opponents_and_distinct_game_seeds(population):
    block = Matchmaker(population, diplomacy(), num_generations=8, seed=5).block(123)
    assert block.block_id == "b000123"
    assert [power for power, _ in block.opponents] == [power for power in POWERS if power != block.role]
    seeds = [block.game_seed(member) for member in range(8)]
    assert len(set(seeds)) == 8
    assert all(0 <= seed < 2**63 for seed in seeds)
    for number in (-1, 8):
        with pytest.raises(IndexError, match="b000123 has games 0 to 7"):
            block.game_seed(number)


def test_a_block_depends_on_seed_index_and_active_members_alone(population, tmp_path):
    forward = Matchmaker(population, diplomacy(), 4, seed=9)
    blocks = [forward.block(index) for index in range(30)]
    backward = Matchmaker(population, diplomacy(), 4, seed=9)
    assert [backward.block(index) for index in reversed(range(30))] == blocks[::-1]

    reordered = Population(tmp_path / "elsewhere" / "population.json")
    for name, weight in (("hold", 0.0), ("dumbbot", 3.0), ("greedy", 1.0), ("random", 1.0)):
        reordered.add_bot(name, weight=weight)
    reordered.retire("bot/greedy")
    assert [Matchmaker(reordered, diplomacy(), 4, seed=9).block(index) for index in range(30)] == blocks

    other = Matchmaker(population, diplomacy(), 4, seed=10)
    assert all(other.block(index).seed != block.seed for index, block in enumerate(blocks))


def test_opponents_are_drawn_by_weight(population):
    matchmaker = Matchmaker(population, diplomacy(), 1, seed=3)
    drawn = Counter(member for index in range(700) for _, member in matchmaker.block(index).opponents)
    share = drawn["bot/dumbbot"] / 4200
    assert abs(share - 0.75) < 5 * (0.75 * 0.25 / 4200) ** 0.5
    assert "bot/hold" not in drawn


def test_random_draws_of_zero_and_one_return_a_valid_index():
    assert draw_index([0.5, 3.0, 0.0], 0) == 0
    assert draw_index([0.5, 3.0, 0.0], 2**63 - 1) == 1


def test_the_lineup_digest_depends_on_members_and_versions(tmp_path):
    save_file({"w": np.float32([1])}, tmp_path / "weights")
    first = Population(tmp_path / "population.json")
    first.add_snapshot(tmp_path / "weights", version=1)
    save_file({"w": np.float32([2])}, tmp_path / "weights")
    second = Population(tmp_path / "population.json")
    second.add_snapshot(tmp_path / "weights", version=1)
    block = Matchmaker(first, diplomacy(), 2, seed=1).block(0)
    later = next(
        other
        for other in (Matchmaker(first, diplomacy(), 2, seed=1).block(index) for index in range(7, 14))
        if other.role == block.role
    )
    assert later.lineup == block.lineup  # the same country against the same six
    assert later.seed != block.seed
    assert Matchmaker(second, diplomacy(), 2, seed=1).block(0).lineup != block.lineup
    assert len({Matchmaker(first, diplomacy(), 2, seed=1).block(index).lineup for index in range(7)}) == 7


def test_a_population_without_drawable_members_is_refused(tmp_path):
    empty = Population(tmp_path / "population.json")
    empty.add_bot("hold", weight=0.0)
    with pytest.raises(PopulationError, match="no active member with a weight above 0"):
        Matchmaker(empty, diplomacy(), 1, seed=0).block(0)


@pytest.mark.parametrize("keys", [{}, {"anchor_share": 1.0, "anchors": ("random", "dumbbot")}])
def test_later_members_replace_those_retired_by_hand(tmp_path, keys):
    """Otherwise a run could neither continue nor resume, not even after ``--undo``, which also joins a member."""
    population = Population(tmp_path / "population.json")
    for name in ("random", "hold"):
        population.add_bot(name)
    population.advance_to(10)
    settings = OpponentsSettings(members={"random": 1.0, "dumbbot": 1.0}, **keys)
    matchmaker = Matchmaker(population, diplomacy(), 2, 0, settings)
    population.add_bot("dumbbot", created_at_update=population.join_update)
    drawn = {who for index in range(7) for _, who in matchmaker.block(index, newest_snapshot=9).opponents}
    assert "bot/dumbbot" not in drawn
    population.retire("bot/random")
    if not keys:
        population.retire("bot/hold")
    assert {who for _, who in matchmaker.block(0, newest_snapshot=9).opponents} == {"bot/dumbbot"}
    population.retire("bot/dumbbot")
    with pytest.raises(PopulationError, match=r"no active member|none of the anchors"):
        matchmaker.block(0, newest_snapshot=9)
    population.reactivate("bot/random")
    assert {who for _, who in matchmaker.block(0, newest_snapshot=9).opponents} == {"bot/random"}


def test_derived_seeds_are_distinct_in_range_and_the_same_in_every_process():
    seeds = {derive_seed(first, second) for first in range(60) for second in range(60)}
    assert len(seeds) == 3600
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert derive_seed(1, "2") != derive_seed("1", 2)
    source = "from opponents.matchmaking.matchmaker import derive_seed; print(derive_seed(7, 'game', 3))"
    printed = [
        subprocess.run(
            [sys.executable, "-c", source],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1] == f"{derive_seed(7, 'game', 3)}\n"


def test_a_line_up_depends_on_its_snapshot_bound_and_not_on_timing(tmp_path):
    """Blocks with an early bound are the same whatever joined since; of the admitted snapshots the newest play."""
    early = Population(tmp_path / "population.json")
    early.add_bot("random")
    late = Population(tmp_path / "population.json")
    late.add_bot("random")
    for version in (2, 4, 6, 8):
        weights = tmp_path / f"v{version}.safetensors"
        save_file({"w": np.float32([version])}, weights)
        late.add_snapshot(weights, version=version)
        if version <= 4:
            early.add_snapshot(weights, version=version)
    for index in range(60, 80):
        ours = Matchmaker(early, diplomacy(), 2, 1, NEWEST).block(index, newest_snapshot=5)
        theirs = Matchmaker(late, diplomacy(), 2, 1, NEWEST).block(index, newest_snapshot=5)
        assert ours == theirs
        assert {member for _, member in ours.opponents} <= {"bot/random", "policy/v4"}


@given(st.integers(0, 2**63 - 1), st.integers(0, 1000), st.sampled_from(["AB", "CAB", "ABCDEFGHIJ"]))
def test_the_roles_of_any_world_rotate_and_extra_blocks_find_theirs(seed, run, names):
    roles = tuple(names)
    blocks = range(run * len(roles), (run + 1) * len(roles))
    assert sorted(learner_of_block(seed, index, roles) for index in blocks) == sorted(roles)
    assert {number_of_block(index, roles) for index in blocks} == {run}
    for role in roles:
        index = extra_block(run, role, 5, roles)
        assert learner_of_block(seed, index, roles) == role
        assert number_of_block(index, roles) == run + 5


def test_a_block_of_another_world_has_its_seats_in_order_and_its_start(tmp_path):
    population = population_of(tmp_path, member("fold"), member("raise", weight=3.0))
    matchmaker = Matchmaker(population, Deals(), 2, seed=4)
    for index in range(9):
        block = matchmaker.block(index)
        assert list(block.players) == ["C", "A", "B"]
        assert block.start == f"{block.role}-0-{derive_seed(block.seed, 'start') % 100}"
        assert matchmaker.with_opponents(index, dict(block.opponents)) == block
        assert matchmaker.with_opponents(index, dict(block.opponents), "B-7-1").start == "B-7-1"
    assert Matchmaker(population, Cards(), 2, seed=4).block(0).start == ""
    only = population_of(tmp_path / "a", member("raise", country="A"))
    with pytest.raises(PopulationError, match=r"no member to play [BC]: every member .* plays another seat alone"):
        Matchmaker(only, Cards(), 1, seed=0).block(0)
