"""A fake rollout actor: weights and blocks prescribe its behaviour, and it logs its calls."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from services.inference.engine import EngineError

FOR_EVER_S = 3600.0


@dataclass(frozen=True)
class Weights:
    """The behaviour of the players with these numbers at a weight swap."""

    version: int
    hang: frozenset[int] = frozenset()
    refuse: dict[int, int] = field(default_factory=dict)  # player -> how often


@dataclass(frozen=True)
class Block:
    """A fake line-up block."""

    block_id: str
    num_generations: int = 1
    seconds: float = 0.05
    hang: frozenset[int] = frozenset()  # players that never finish the block
    fails: frozenset[int] = frozenset()  # players whose engine fails on it


class Played(NamedTuple):
    """A played block, as a ``BlockReport`` of its games."""

    block_id: str
    player: int

    @property
    def games(self) -> int:
        return 1


class FakePlayer:
    """Has the methods of a ``RolloutWorker``; players are numbered as they are spawned."""

    def __init__(
        self,
        number: int,
        log: str,
        loading_s: float = 0.0,
        refuses_sleep: bool = False,
        fails_evaluations: bool = False,
        has_engine: bool = False,
    ) -> None:
        self.number = number
        self._log = Path(log)
        self._loading_s = loading_s
        self._refuses_sleep = refuses_sleep
        self._fails_evaluations = fails_evaluations
        self._version = -1
        self._refused = 0
        self._awake = asyncio.Event()
        self._awake.set()
        self._note(f"pid {os.getpid()}")
        if has_engine:  # a process in its own group, which Ray does not end with the player
            engine = subprocess.Popen(["sleep", f"{FOR_EVER_S:g}"], start_new_session=True)
            self._note(f"engine {engine.pid}")

    async def ready(self) -> dict[str, float]:
        await asyncio.sleep(self._loading_s)
        self._note("ready")
        return {}

    async def swap(self, weights: Weights) -> float:
        self._note(f"swap {weights.version}")
        if self.number in weights.hang:
            await asyncio.sleep(FOR_EVER_S)
        if self._refused < weights.refuse.get(self.number, 0):
            self._refused += 1
            raise EngineError("these weights disagree with the learner")
        self._version = weights.version
        self._note(f"has {weights.version}")
        return 0.01

    async def play_block(self, block: Block, members: list[object], version: int) -> Played:
        assert self._version >= version, "a block began under old weights"
        assert self._awake.is_set(), "a block began on a sleeping engine"
        self._note(f"plays {block.block_id}")
        if self.number in block.hang:
            await asyncio.sleep(FOR_EVER_S)
        await asyncio.sleep(block.seconds)
        if self.number in block.fails:
            raise EngineError("a prompt of 9 tokens\nleaves no room")
        await self._awake.wait()
        return Played(block.block_id, self.number)

    async def play_evaluation(self, games: list[int], version: int) -> list[int]:
        assert self._version >= version, "an evaluation began under old weights"
        self._note(f"evaluates {games[0]}")
        await asyncio.sleep(0.05)
        if self._fails_evaluations:
            raise EngineError("the engine's process died")
        return games

    async def stats(self) -> dict[str, float]:
        return {"decisions": 10.0}

    async def sleep(self) -> None:
        if self._refuses_sleep:
            raise EngineError("this engine cannot sleep")
        self._awake.clear()
        self._note("sleeps")

    async def wake(self) -> None:
        self._awake.set()
        self._note("wakes")

    def _note(self, what: str) -> None:
        with self._log.open("a") as file:
            file.write(f"{self.number} {what}\n")


class Publisher:
    """An actor that owns or makes weights until it is killed."""

    def pid(self) -> int:
        return os.getpid()

    def owned(self, weights: Weights) -> list[object]:
        import ray

        return [ray.put(weights)]

    async def never(self) -> Weights:
        await asyncio.sleep(FOR_EVER_S)
        raise AssertionError
