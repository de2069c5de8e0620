"""Snapshots in a rollout actor's engine: loaded once for all waiters, and unloaded when idle."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.actors.frozen_policies import FrozenPolicies
from opponents.population.member import Member
from services.inference.engine import EngineError


class Engine:
    """Records loads and unloads; a load ends when ``gate`` is set, with ``failure`` if there is one."""

    def __init__(self) -> None:
        self.loads: list[str] = []
        self.unloads: list[str] = []
        self.gate = asyncio.Event()
        self.failure: Exception | None = None

    async def load(self, member: Member) -> Any:
        self.loads.append(member.id)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return f"policy {member.id}"


def member(number: int) -> Any:
    return SimpleNamespace(id=f"policy/v{number}")


def run(play: Any, max_loaded: int = 2) -> Engine:
    async def main() -> Engine:
        engine = Engine()
        await play(engine, FrozenPolicies(engine.load, engine.unloads.append, max_loaded))
        return engine

    return asyncio.run(main())


async def started(*coroutines: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


def test_concurrent_blocks_share_one_load() -> None:
    async def play(engine: Engine, frozen: FrozenPolicies) -> None:
        tasks = await started(*(frozen.policy(member(1)) for _ in range(3)))
        engine.gate.set()
        assert await asyncio.gather(*tasks) == ["policy policy/v1"] * 3
        assert await frozen.policy(member(1)) == "policy policy/v1"

    assert run(play).loads == ["policy/v1"]


def test_a_failed_load_raises_for_all_waiters_and_is_tried_again() -> None:
    async def play(engine: Engine, frozen: FrozenPolicies) -> None:
        tasks = await started(*(frozen.policy(member(1)) for _ in range(2)))
        engine.failure = EngineError("no memory")
        engine.gate.set()
        for task in tasks:
            with pytest.raises(EngineError, match="no memory"):
                await task
        engine.failure = None
        assert await frozen.policy(member(1)) == "policy policy/v1"

    assert run(play).loads == ["policy/v1"] * 2


@pytest.mark.parametrize("cancelled", [0, 1])
def test_a_cancelled_waiter_does_not_cancel_the_others(cancelled: int) -> None:
    async def play(engine: Engine, frozen: FrozenPolicies) -> None:
        tasks = await started(*(frozen.policy(member(1)) for _ in range(2)))
        tasks[cancelled].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[cancelled]
        engine.gate.set()
        assert await tasks[1 - cancelled] == "policy policy/v1"

    assert run(play).loads == ["policy/v1"]


def test_a_load_whose_waiters_were_all_cancelled_is_used_by_the_next_block() -> None:
    async def play(engine: Engine, frozen: FrozenPolicies) -> None:
        (task,) = await started(frozen.policy(member(1)))
        task.cancel()
        await started()
        engine.gate.set()
        assert await frozen.policy(member(1)) == "policy policy/v1"

    assert run(play).loads == ["policy/v1"]


def test_idle_policies_are_unloaded_oldest_first_and_never_while_a_block_uses_them() -> None:
    async def play(engine: Engine, frozen: FrozenPolicies) -> None:
        engine.gate.set()
        with frozen.in_use(["policy/v1"]):
            await frozen.policy(member(1))
            for number in (2, 3, 4):
                with frozen.in_use([f"policy/v{number}"]):
                    await frozen.policy(member(number))
            assert engine.unloads == ["policy/v2", "policy/v3"]

    engine = run(play)
    assert engine.loads == [f"policy/v{number}" for number in (1, 2, 3, 4)]
    assert engine.unloads == ["policy/v2", "policy/v3"]
