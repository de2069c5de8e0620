"""A real pool of fake rollout actors, and its events."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from cluster.configs.sections import RolloutSettings
from cluster.driver.rollout_pool import RolloutPool
from cluster.runtime.placement import FurtherPlace, Slot
from tests.system.support.fake_players import Block, FakePlayer, Played, Publisher, Weights


class PoolHarness:
    """A pool of fake players and its events."""

    def __init__(
        self,
        folder: Path,
        *,
        players: dict[int, dict[str, Any]] | None = None,
        further: Callable[[], FurtherPlace] | None = None,
        **settings: Any,
    ) -> None:
        """``players``: options of single players; ``further``: requests room for one more; ``settings``: rollout.*."""
        self.log = folder / "log"
        self.log.touch()
        self.republished: list[Weights] = []
        self.blocks: list[Played] = []
        self.notices: list[str] = []
        self.swaps = 0
        self._spawned = 0
        self._players = players or {}
        limits = {"actors": 2, "games_per_actor": 8, "swap_timeout_s": 30.0, **settings}
        self.pool = RolloutPool(self._spawn, RolloutSettings(**limits), lambda: ray.put(self.republished[-1]), further)

    def _spawn(self, slot: Slot) -> Any:
        number = self._spawned
        self._spawned += 1
        place: dict[str, Any] = {}
        if isinstance(slot, FurtherPlace):
            place["scheduling_strategy"] = PlacementGroupSchedulingStrategy(slot.group, 0)
        actor = ray.remote(FakePlayer).options(num_cpus=0.1, max_concurrency=100, **place)
        return actor.remote(number, str(self.log), **self._players.get(number, {}))

    def __enter__(self) -> PoolHarness:
        self.pool.wait_ready()
        self.broadcast(Weights(0))
        self.wait(lambda: self.swaps == self.pool.size, "first weights")
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.close()

    def broadcast(self, weights: Weights) -> None:
        self.pool.broadcast(ray.put(weights), weights.version)

    def start(self, *blocks: Block) -> None:
        for block in blocks:
            self.wait(lambda block=block: self.pool.has_room(block.num_generations), "room")
            self.pool.submit(block, [])

    def poll(self) -> None:
        events = self.pool.poll((), 0.1)
        self.blocks += events.blocks
        self.notices += events.notices
        self.swaps += len(events.swap_seconds)

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = 300) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"no {what}:\n{self.log.read_text()}"
            self.poll()

    def has_logged(self, line: str) -> bool:
        return line in self.log.read_text().splitlines()

    def pid(self, number: int, what: str = "pid") -> int:
        (line,) = [line for line in self.log.read_text().splitlines() if line.startswith(f"{number} {what} ")]
        return int(line.split()[-1])

    def played(self) -> list[str]:
        return sorted(name for name, _ in self.blocks)


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def owned_by_the_dead(weights: Weights) -> Any:
    """A reference to weights that went with the process which held them."""
    publisher = ray.remote(Publisher).options(num_cpus=0.1).remote()
    (ref,) = ray.get(publisher.owned.remote(weights), timeout=300)
    os.kill(ray.get(publisher.pid.remote(), timeout=300), signal.SIGKILL)
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        try:
            ray.get(ref, timeout=5)
        except ray.exceptions.ObjectLostError:
            return ref
        time.sleep(0.1)
    raise AssertionError("the weights outlived their owner")
