from __future__ import annotations

import asyncio

import pytest

from services.inference.engine import EngineError
from services.inference.vllm_backend.weight_scheduler import WeightScheduler


class Board:
    """Stands for an engine: it may only be asked under the weights that it runs."""

    def __init__(self, first: str, *, timeout_s: float = 5.0) -> None:
        self.running = first
        self.inside = 0
        self.loads: list[str] = []
        self.turnstile = WeightScheduler(first, self.load, timeout_s)

    async def load(self, weights: str) -> None:
        assert self.inside == 0, "weights were swapped under a decision"
        await asyncio.sleep(0)
        if weights == "broken":
            raise EngineError("these weights are broken")
        self.running = weights
        self.loads.append(weights)

    async def decide(self, weights: str, rounds: int = 3) -> str:
        async with self.turnstile.under(lambda: weights) as under:
            self.inside += 1
            for _ in range(rounds):
                assert self.running == under == weights
                await asyncio.sleep(0)
            self.inside -= 1
        return weights


def test_every_decision_is_made_under_its_own_weights_in_few_turns() -> None:
    async def play() -> tuple[list[str], Board]:
        board = Board("a")
        names = [name for _ in range(20) for name in "abc"]
        return await asyncio.gather(*(board.decide(name) for name in names)), board

    made, board = asyncio.run(play())
    assert made == [name for _ in range(20) for name in "abc"]
    assert len(board.loads) == board.turnstile.switches <= 4


def test_who_comes_back_does_not_keep_others_waiting() -> None:
    """Two games ask for "a" again and again; the one that asks for "b" is let in after those inside have left."""

    async def play() -> int:
        board = Board("a")
        finished = asyncio.Event()
        made = 0

        async def again_and_again() -> None:
            nonlocal made
            while not finished.is_set():
                await board.decide("a")
                made += 1

        games = [asyncio.create_task(again_and_again()) for _ in range(2)]
        await asyncio.sleep(0)
        await board.decide("b")
        finished.set()
        seen = made
        await asyncio.gather(*games)
        return seen

    assert asyncio.run(play()) <= 4


def test_a_swap_alone_holds_the_others_and_what_they_want_may_change_meanwhile() -> None:
    async def play() -> list[str]:
        board = Board("old")
        wanted = "old"
        log: list[str] = []

        async def decide(name: str) -> None:
            async with board.turnstile.under(lambda: wanted) as under:
                log.append(f"{name} under {under}")
                await asyncio.sleep(0.01)
                log.append(f"{name} done")

        early = asyncio.create_task(decide("early"))
        await asyncio.sleep(0)
        async with board.turnstile.alone(drained=True):
            log.append("alone")
            late = asyncio.create_task(decide("late"))
            await asyncio.sleep(0.01)
            wanted = board.running = "new"
            board.turnstile.now_loaded("new")
        await asyncio.gather(early, late)
        return log

    assert asyncio.run(play()) == ["early under old", "early done", "alone", "late under new", "late done"]


def test_weights_that_cannot_be_loaded_fail_those_who_want_them_and_nobody_waits_for_ever() -> None:
    async def play() -> None:
        board = Board("a")
        with pytest.raises(EngineError, match="broken"):
            await asyncio.wait_for(board.decide("broken"), 5)
        assert await asyncio.wait_for(board.decide("a"), 5) == "a"

    asyncio.run(play())


def test_who_wants_what_is_gone_is_sent_away_alone() -> None:
    async def play() -> None:
        board = Board("a")
        removed = False

        def opponent() -> str:
            if removed:
                raise EngineError("unknown policy")
            return "b"

        async def ask() -> None:
            async with board.turnstile.under(opponent):
                pass

        inside = asyncio.create_task(board.decide("a", rounds=20))
        await asyncio.sleep(0)
        opponents, others = asyncio.create_task(ask()), asyncio.create_task(board.decide("c"))
        learner = asyncio.create_task(board.decide("a"))
        await asyncio.sleep(0)
        removed = True
        with pytest.raises(EngineError, match="unknown policy"):
            await asyncio.wait_for(opponents, 5)
        assert await asyncio.wait_for(asyncio.gather(inside, learner, others), 5) == ["a", "a", "c"]

    asyncio.run(play())


def test_those_inside_who_do_not_leave_are_reported() -> None:
    async def play() -> None:
        board = Board("a", timeout_s=0.05)
        stuck = asyncio.create_task(board.decide("a", rounds=1_000_000))
        await asyncio.sleep(0)
        with pytest.raises(EngineError, match="1 decisions in flight did not finish within"):
            async with board.turnstile.alone(drained=True):
                pass
        stuck.cancel()

    asyncio.run(play())


def test_who_gives_up_waiting_is_forgotten() -> None:
    async def play() -> None:
        board = Board("a")
        inside = asyncio.create_task(board.decide("a", rounds=50))
        await asyncio.sleep(0)
        impatient = asyncio.create_task(board.decide("b"))
        await asyncio.sleep(0)
        assert board.turnstile.waiting == 1
        impatient.cancel()
        await asyncio.wait([impatient])
        assert board.turnstile.waiting == 0
        assert await inside == "a"
        assert await asyncio.wait_for(board.decide("a"), 5) == "a"

    asyncio.run(play())
