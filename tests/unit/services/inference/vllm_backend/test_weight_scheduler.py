from __future__ import annotations

import asyncio

import pytest

from services.inference.engine import EngineError
from services.inference.vllm_backend.weight_scheduler import WeightScheduler


class FakeEngine:
    """Checks that a decision runs under its own weights, and that none runs while weights are loaded."""

    def __init__(self, first: str, *, timeout_s: float = 5.0) -> None:
        self.loaded = first
        self.running = 0
        self.loads: list[str] = []
        self.loading, self.may_load = asyncio.Event(), asyncio.Event()
        self.may_load.set()
        self.scheduler = WeightScheduler(first, self.load, timeout_s)

    async def load(self, weights: str) -> None:
        self.loading.set()
        await self.may_load.wait()
        await asyncio.sleep(0)
        assert self.running == 0, "weights were swapped under a decision"
        if weights == "broken":
            raise EngineError("these weights are broken")
        self.loaded = weights
        self.loads.append(weights)

    async def decide(self, weights: str, rounds: int = 3) -> str:
        async with self.scheduler.decision(lambda: weights):
            self.running += 1
            for _ in range(rounds):
                assert self.loaded == self.scheduler.loaded == weights
                await asyncio.sleep(0)
            self.running -= 1
        return weights


async def cancel(task: asyncio.Task[str]) -> None:
    task.cancel()
    await asyncio.wait([task])


def test_each_decision_runs_under_its_own_weights_with_few_loads() -> None:
    async def play() -> tuple[list[str], FakeEngine]:
        engine = FakeEngine("a")
        names = [name for _ in range(20) for name in "abc"]
        return await asyncio.gather(*(engine.decide(name) for name in names)), engine

    made, engine = asyncio.run(play())
    assert made == [name for _ in range(20) for name in "abc"]
    assert len(engine.loads) == engine.scheduler.switches <= 4


def test_repeated_requests_do_not_starve_other_weights() -> None:
    """Two games ask for "a" again and again; a request for "b" is admitted when the running decisions have finished."""

    async def play() -> int:
        engine = FakeEngine("a")
        finished = asyncio.Event()
        made = 0

        async def decide_repeatedly() -> None:
            nonlocal made
            while not finished.is_set():
                await engine.decide("a")
                made += 1

        games = [asyncio.create_task(decide_repeatedly()) for _ in range(2)]
        await asyncio.sleep(0)
        await engine.decide("b")
        finished.set()
        seen = made
        await asyncio.gather(*games)
        return seen

    assert asyncio.run(play()) <= 4


def test_exclusive_access_holds_decisions_whose_weights_may_change_meanwhile() -> None:
    async def play() -> list[str]:
        engine = FakeEngine("old")
        needed = "old"
        log: list[str] = []

        async def decide(name: str) -> None:
            async with engine.scheduler.decision(lambda: needed):
                log.append(f"{name} under {engine.scheduler.loaded}")
                await asyncio.sleep(0.01)
                log.append(f"{name} done")

        early = asyncio.create_task(decide("early"))
        await asyncio.sleep(0)
        async with engine.scheduler.exclusive(drained=True):
            log.append("exclusive")
            late = asyncio.create_task(decide("late"))
            await asyncio.sleep(0.01)
            needed = engine.loaded = engine.scheduler.loaded = "new"
        await asyncio.gather(early, late)
        return log

    assert asyncio.run(play()) == ["early under old", "early done", "exclusive", "late under new", "late done"]


def test_weights_that_cannot_be_loaded_fail_only_the_decisions_that_need_them() -> None:
    async def play() -> None:
        engine = FakeEngine("a")
        with pytest.raises(EngineError, match="broken"):
            await asyncio.wait_for(engine.decide("broken"), 5)
        assert await asyncio.wait_for(engine.decide("a"), 5) == "a"

    asyncio.run(play())


def test_a_removed_policy_fails_only_its_own_decisions() -> None:
    async def play() -> None:
        engine = FakeEngine("a")
        removed = False

        def opponent() -> str:
            if removed:
                raise EngineError("unknown policy")
            return "b"

        async def decide_as_opponent() -> None:
            async with engine.scheduler.decision(opponent):
                pass

        running = asyncio.create_task(engine.decide("a", rounds=20))
        await asyncio.sleep(0)
        opponents, others = asyncio.create_task(decide_as_opponent()), asyncio.create_task(engine.decide("c"))
        learner = asyncio.create_task(engine.decide("a"))
        await asyncio.sleep(0)
        removed = True
        with pytest.raises(EngineError, match="unknown policy"):
            await asyncio.wait_for(opponents, 5)
        assert await asyncio.wait_for(asyncio.gather(running, learner, others), 5) == ["a", "a", "c"]

    asyncio.run(play())


def test_running_decisions_that_do_not_finish_in_time_are_reported() -> None:
    async def play() -> None:
        engine = FakeEngine("a", timeout_s=0.05)
        stuck = asyncio.create_task(engine.decide("a", rounds=1_000_000))
        await asyncio.sleep(0)
        with pytest.raises(EngineError, match="1 decisions in flight did not finish within"):
            async with engine.scheduler.exclusive(drained=True):
                pass
        stuck.cancel()

    asyncio.run(play())


def test_weights_are_not_loaded_when_their_only_waiter_is_cancelled() -> None:
    async def play() -> None:
        engine = FakeEngine("a")
        running = asyncio.create_task(engine.decide("a", rounds=50))
        await asyncio.sleep(0)
        waiter = asyncio.create_task(engine.decide("b"))
        await asyncio.sleep(0)
        assert engine.scheduler.waiting == 1
        await cancel(waiter)
        assert engine.scheduler.waiting == 0
        assert await asyncio.wait_for(engine.decide("a"), 5) == await running == "a"
        assert engine.loads == []

    asyncio.run(play())


def test_no_decision_begins_while_weights_load_for_a_cancelled_waiter() -> None:
    async def play() -> None:
        engine = FakeEngine("a")
        engine.may_load.clear()
        waiter = asyncio.create_task(engine.decide("b"))
        await asyncio.wait_for(engine.loading.wait(), 5)
        await cancel(waiter)
        late = asyncio.create_task(engine.decide("a", rounds=10))
        for _ in range(5):
            await asyncio.sleep(0)
        assert engine.scheduler.waiting == 1
        assert engine.running == 0
        engine.may_load.set()
        assert await asyncio.wait_for(late, 5) == "a"
        assert engine.loads == ["b", "a"]

    asyncio.run(play())
