"""The schedule of blocks and the admission bound."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.driver.block_schedule import BlockSchedule
from cluster.errors import RunError
from grpo_core.types import Episode
from opponents.matchmaking.lineup import LineupBlock
from opponents.matchmaking.matchmaker import Matchmaker
from opponents.population.population import Population
from services.environments.diplomacy.position import POWERS
from services.replay.memory_buffer import MemoryBuffer

SMALL = ("rollout.num_generations=2", "learner.episodes_per_update=10", "learner.updates=5")
CONFIG = load_config("smoke", SMALL)


def schedule_at(version: int, config: Config = CONFIG) -> BlockSchedule:
    population = Population(Path("population.json"))
    population.add_bot("random")
    matchmaker = Matchmaker(population, config.world, config.rollout.num_generations, config.run.seed)
    return BlockSchedule(config.run.seed, config.world.roles, config.learner, config.rollout, matchmaker, version)


def test_the_schedule_rotates_countries_and_ends_with_the_run() -> None:
    schedule = schedule_at(0)
    blocks = []
    while schedule.wanted():
        blocks.append(schedule.next_block())
    assert [block.index for block in blocks] == list(range(25))
    assert schedule.started_episodes == 50
    for start in range(0, 21, 7):
        assert {block.role for block in blocks[start : start + 7]} == set(POWERS)
    quotas = [schedule.quota(update) for update in range(5)]
    assert all(sum(quota.values()) == 5 for quota in quotas)


def test_an_update_is_ready_when_its_countries_are_complete_in_any_order() -> None:
    schedule = schedule_at(0)
    blocks = [schedule.next_block() for _ in range(5)]
    assert not schedule.ready()
    assert sum(schedule.missing().values()) == 5
    for block in reversed(blocks):
        schedule.finished(block)
    assert schedule.ready()
    assert schedule.hand_over() == schedule.quota(0)
    assert schedule.ready()
    assert schedule.hand_over() == {}
    schedule.updated()
    assert not schedule.ready()


def episode(block: str, member: int, role: str) -> Episode:
    return Episode(f"{block}/{member}", "diplomacy", role, block, 2, {}, (), 0.0, {}, {}, 0)


def test_after_a_restart_only_incomplete_blocks_are_played_again() -> None:
    first = schedule_at(0)
    blocks = [first.next_block() for _ in range(6)]
    buffer = MemoryBuffer(group_timeout_s=60)
    for block in blocks:
        members = 1 if block.index == 3 else 2  # block 3 was cut off after one game
        buffer.append([episode(block.block_id, member, block.role) for member in range(members)])
    again = schedule_at(0)
    again.recover(buffer, {})
    assert again.started_episodes == 10
    assert again.next_block().index == 3
    assert again.next_block().index == 6


def test_the_last_of_many_extra_blocks_is_found_while_earlier_ones_are_still_played() -> None:
    config = load_config("smoke", [*SMALL, "learner.top_up_episodes=80"])
    schedule, buffer = schedule_at(0, config), MemoryBuffer(group_timeout_s=60)
    while schedule.wanted():
        play(schedule, buffer, [schedule.next_block()])
    schedule.hand_over()
    assert schedule.top_up({"FRANCE": 40})
    extra = [schedule.next_extra_block() for _ in range(40)]
    play(schedule, buffer, extra[-1:])
    again = schedule_at(0, config)
    again.recover(buffer, {})
    again.hand_over()
    assert again.top_up({"FRANCE": 40})
    assert [again.next_extra_block() for _ in range(39)] == extra[:-1]
    assert not again.extra_wanted()


class Waiting:
    """Blocks as the buffer keeps them: by country, in order of arrival, with the version that each began with."""

    def __init__(self) -> None:
        self.by_country: dict[str, list[int]] = {power: [] for power in POWERS}

    def take(self, blocks: dict[str, int]) -> list[int]:
        taken = []
        for power, count in blocks.items():
            assert 0 < count <= len(self.by_country[power])
            taken += self.by_country[power][:count]
            del self.by_country[power][:count]
        return taken


@given(rng=st.randoms(use_true_random=False), staleness=st.integers(0, 2), gives_up=st.booleans())
@settings(max_examples=60, deadline=None)
def test_extra_blocks_neither_starve_an_update_nor_delay_others(
    rng: random.Random, staleness: int, gives_up: bool
) -> None:
    config = load_config("smoke", [*SMALL, "learner.top_up_episodes=8", f"rollout.max_staleness={staleness}"])
    schedule = schedule_at(0, config)
    flights: list[tuple[LineupBlock, int]] = []
    waiting, ages, taken = Waiting(), [], 0

    def play(version: int) -> None:
        """Start what may start; one block ends, the first that began."""
        while schedule.extra_wanted():
            flights.append((schedule.next_extra_block(), version))
        while schedule.wanted() and schedule.admits():
            flights.append((schedule.next_block(), version))
        assert flights, "nothing is played and the update waits: a deadlock"
        block, began = flights.pop(0)
        waiting.by_country[block.role].append(began)
        schedule.finished(block)

    for version in range(config.learner.updates):
        while not schedule.ready():
            play(version)
        ages += [version - began for began in waiting.take(schedule.hand_over())]
        for _ in range(2):  # two rounds of requests
            wanted = {power: rng.randint(0, 2) for power in rng.sample(POWERS, 2)}
            if not schedule.top_up(wanted):
                continue
            for _ in range(rng.randint(0, 3) if gives_up else 100):
                if schedule.ready():
                    break
                play(version)
            ages += [version - began for began in waiting.take(schedule.hand_over())]
            if not schedule.ready():
                break
        taken = sum(schedule.topped_up.values())
        schedule.updated()
    assert len(ages) == 25 + taken
    assert gives_up or max(ages) <= staleness


TOPPED_UP = load_config(
    "smoke", [*SMALL, "learner.episodes_per_update=14", "learner.updates=3", "learner.top_up_episodes=4"]
)


def play(schedule: BlockSchedule, buffer: MemoryBuffer, blocks: Iterable[LineupBlock]) -> None:
    for block in blocks:
        buffer.append([episode(block.block_id, member, block.role) for member in range(block.num_generations)])
        schedule.finished(block)


def test_extra_block_lost_after_another_was_used_instead_is_played_again() -> None:
    buffer = MemoryBuffer(group_timeout_s=60)
    schedule = schedule_at(0, TOPPED_UP)
    blocks = [schedule.next_block() for _ in range(14)]  # two updates', as max_staleness = 1 admits
    play(schedule, buffer, blocks[:7])
    schedule.hand_over()
    assert schedule.top_up({"FRANCE": 1})
    lost = schedule.next_extra_block()  # is being played while the next update's block of France is used
    play(schedule, buffer, blocks[7:])
    assert schedule.hand_over() == {"FRANCE": 1}
    topped_up = schedule.topped_up
    schedule.updated()
    for _ in range(2):  # the driver dies, and again before the block is played
        again = schedule_at(1, TOPPED_UP)
        again.recover(buffer, topped_up)
        assert again.missing() == {"FRANCE": 1}
        assert again.next_extra_block() == lost
        assert not again.extra_wanted()
    play(again, buffer, [lost])
    assert again.hand_over() == again.quota(1)
    assert not again.top_up({})  # it was not late: nothing is left over


def test_late_blocks_count_towards_the_bound() -> None:
    buffer = MemoryBuffer(group_timeout_s=60)
    schedule = schedule_at(0, TOPPED_UP)
    blocks = [schedule.next_block() for _ in range(21)]
    play(schedule, buffer, blocks[:7])
    schedule.hand_over()
    assert schedule.top_up({"FRANCE": 1, "ITALY": 1})
    late = [schedule.next_extra_block() for _ in range(2)]
    schedule.updated()  # it gave up waiting
    play(schedule, buffer, [*blocks[7:14], late[0]])
    schedule.hand_over()
    assert schedule.top_up(
        {"ENGLAND": 1}
    )  # only for the late block of France: Italy's may still come, two are the bound
    assert not schedule.extra_wanted()
    assert schedule.hand_over() == {"FRANCE": 1}
    assert not schedule.top_up({"ENGLAND": 1})
    play(schedule, buffer, late[1:])
    assert schedule.top_up({"ENGLAND": 1})
    assert schedule.hand_over() == {"ITALY": 1}
    assert not schedule.top_up({"ENGLAND": 1})
    schedule.updated()
    play(schedule, buffer, blocks[14:])
    schedule.hand_over()
    assert schedule.top_up({"ENGLAND": 2})
    assert [schedule.next_extra_block().role for _ in range(2)] == ["ENGLAND"] * 2


def test_a_restarted_update_finds_the_extra_blocks_it_requested() -> None:
    config = load_config("smoke", [*SMALL, "learner.top_up_episodes=8"])
    buffer = MemoryBuffer(group_timeout_s=60)

    def stored(block: LineupBlock, members: int) -> None:
        buffer.append([episode(block.block_id, member, block.role) for member in range(members)])

    def up_to_the_first_asking(schedule: BlockSchedule) -> list[LineupBlock]:
        while schedule.wanted():
            block = schedule.next_block()
            stored(block, 2)
            schedule.finished(block)
        schedule.hand_over()
        assert schedule.top_up({"FRANCE": 2, "ITALY": 1})
        extra = []
        while schedule.extra_wanted():
            extra.append(schedule.next_extra_block())
        return extra

    france, other, italy = up_to_the_first_asking(schedule_at(0, config))
    assert [block.role for block in (france, other, italy)] == ["FRANCE", "FRANCE", "ITALY"]
    stored(france, 2)
    stored(italy, 1)  # cut off after one game

    same = schedule_at(0, config)  # dies before the update was made: asks again, and plays what is not there
    same.recover(buffer, {})
    assert up_to_the_first_asking(same) == [other, italy]

    after = schedule_at(1, config)  # after the update, which had used one of France: the rest is late
    after.recover(buffer, {"FRANCE": 1})
    assert [after.next_extra_block()] == [italy]
    assert not after.extra_wanted()
    after.finished(italy)
    after.hand_over()
    assert after.top_up({"ITALY": 1})
    assert not after.extra_wanted()  # the late one is what Italy wanted
    assert after.hand_over() == {"ITALY": 1}
    assert after.topped_up == {"FRANCE": 1, "ITALY": 1}

    with pytest.raises(RunError, match="knows nothing of"):
        schedule_at(1, config).recover(MemoryBuffer(group_timeout_s=60), {"FRANCE": 1})


@given(
    staleness=st.integers(0, 4),
    per_update=st.integers(1, 4),
    version=st.integers(0, 4),
)
@settings(max_examples=30, deadline=None)
def test_admission_bounds_how_far_rollouts_run_ahead(staleness: int, per_update: int, version: int) -> None:
    sizes = (f"learner.episodes_per_update={per_update * 2}", f"rollout.max_staleness={staleness}")
    schedule = schedule_at(0, load_config("smoke", [*SMALL, *sizes, "learner.updates=20"]))
    for _ in range(version):
        schedule.updated()
    while schedule.admits():
        schedule.next_block()
    # The last episode admitted at this version is used by update number (started - 1) // episodes_per_update.
    last_used_at = (schedule.started_episodes - 1) // (per_update * 2)
    assert last_used_at - version == staleness
