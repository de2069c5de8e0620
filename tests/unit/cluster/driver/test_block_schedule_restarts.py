"""The schedule of a driver that dies and starts again, against a model of the buffer."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.driver.block_schedule import BlockSchedule
from opponents.matchmaking.lineup import LineupBlock
from services.environments.diplomacy.position import POWERS
from services.replay.memory_buffer import MemoryBuffer
from tests.unit.cluster.driver.test_block_schedule import SMALL, play, schedule_at


class DeathError(Exception):
    """The driver dies."""


class MortalDriver:
    """A run of the schedule whose driver dies after some blocks; what is durable stays for the next one."""

    def __init__(self, config: Config, seed: int, polls_per_update: int) -> None:
        self.config, self.seed, self.polls_per_update = config, seed, polls_per_update
        self.buffer = MemoryBuffer(group_timeout_s=60)
        self.arrived: list[LineupBlock] = []
        self.used: list[list[LineupBlock]] = []  # of each update
        self.topped_up: dict[str, int] = {}

    def live(self, blocks: int) -> None:
        """Go on from the last update until the run ends, or ``blocks`` were played."""
        self.blocks_left = blocks
        self.flights: list[LineupBlock] = []
        schedule = schedule_at(len(self.used), self.config)
        schedule.recover(self.buffer, self.topped_up)
        while len(self.used) < self.config.learner.updates:
            taken = self._update(schedule)
            topped_up = schedule.topped_up
            schedule.updated()
            self.used.append(taken)
            self.topped_up = topped_up

    def _update(self, schedule: BlockSchedule) -> list[LineupBlock]:
        asking = random.Random(f"{self.seed} {len(self.used)}")
        while not schedule.ready():
            self._play_one(schedule)
        taken = self._taken(schedule, [])
        for _ in range(2):
            if not schedule.top_up({power: asking.randint(0, 2) for power in asking.sample(POWERS, 2)}):
                break
            for _ in range(self.polls_per_update):
                if schedule.ready():
                    break
                self._play_one(schedule)
            taken = self._taken(schedule, taken)
            if not schedule.ready():
                break
        return taken

    def _play_one(self, schedule: BlockSchedule) -> None:
        """Start what may start; one block ends, not always the first that began."""
        while schedule.extra_wanted():
            self.flights.append(schedule.next_extra_block())
        while schedule.wanted() and schedule.admits():
            self.flights.append(schedule.next_block())
        assert self.flights, "nothing is played and the update waits: a deadlock"
        self.blocks_left -= 1
        if self.blocks_left < 0:
            raise DeathError
        rng = random.Random(f"{self.seed} {len(self.used)} {self.blocks_left}")
        block = self.flights.pop(rng.randrange(len(self.flights)))
        assert block not in self.arrived
        self.arrived.append(block)
        play(schedule, self.buffer, [block])

    def _taken(self, schedule: BlockSchedule, so_far: list[LineupBlock]) -> list[LineupBlock]:
        gone = [*so_far, *(block for blocks in self.used for block in blocks)]
        out = list(so_far)
        for power, count in schedule.hand_over().items():
            waiting = [block for block in self.arrived if block.role == power and block not in gone]
            assert len(waiting) >= count, "the buffer does not hold what the schedule hands over"
            out += waiting[:count]
        return out


@given(
    seed=st.integers(0, 2**32),
    lives=st.lists(st.integers(0, 30), max_size=4),
    staleness=st.integers(0, 2),
    polls_per_update=st.sampled_from([0, 2, 1000]),
)
@settings(max_examples=30, deadline=None)
def test_a_driver_death_at_any_point_leaves_no_update_waiting(
    seed: int, lives: list[int], staleness: int, polls_per_update: int
) -> None:
    config = load_config("smoke", [*SMALL, "learner.top_up_episodes=8", f"rollout.max_staleness={staleness}"])
    driver = MortalDriver(config, seed, polls_per_update)
    for blocks in lives:
        with suppress(DeathError):
            driver.live(blocks)
    driver.live(10_000)
    for update, taken in enumerate(driver.used):
        quota = schedule_at(0, config).quota(update)
        assert not Counter(quota) - Counter(block.role for block in taken)
        assert len(taken) - sum(quota.values()) <= 4  # top_up_episodes, in blocks
