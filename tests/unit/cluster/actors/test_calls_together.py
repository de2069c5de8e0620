"""What arrives during a call goes together in the next one; an error or a cancelled caller harms no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.actors.calls_together import CallsTogether
from services.replay.buffer import ReplayError


class Store:
    """Takes a tick of the loop for each call, and fails for calls that hold a number of ``broken``."""

    def __init__(self, *broken: int) -> None:
        self.calls: list[list[int]] = []
        self.open = 0
        self._broken = broken

    async def append(self, numbers: list[int]) -> list[int]:
        self.open += 1
        assert self.open == 1, "one call at a time"
        self.calls.append(numbers)
        await asyncio.sleep(0.01)
        self.open -= 1
        if set(numbers) & set(self._broken):
            raise ReplayError("the server is full")
        return [10 * number for number in numbers]


def run(coroutine: Any) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 10))


def test_what_ends_during_a_call_goes_together_in_the_next_one() -> None:
    store = Store()

    async def play() -> None:
        store_one = CallsTogether("store", store.append)
        first = asyncio.create_task(store_one(0))
        await asyncio.sleep(0.002)
        await asyncio.gather(first, *(store_one(number) for number in range(1, 6)))
        await store_one(6)

    run(play())
    assert store.calls == [[0], [1, 2, 3, 4, 5], [6]]


def test_an_error_reaches_those_whose_call_it_was_and_no_others() -> None:
    store = Store(0)

    async def play() -> list[Any]:
        store_one = CallsTogether("store", store.append)
        first = asyncio.create_task(store_one(0))
        await asyncio.sleep(0.002)
        others = [store_one(number) for number in (1, 2)]
        return await asyncio.gather(first, *others, return_exceptions=True)

    found = run(play())
    assert isinstance(found[0], ReplayError)
    assert found[1:] == [10, 20]


def test_a_game_that_no_longer_waits_does_not_hold_up_the_others() -> None:
    store = Store()

    async def play() -> None:
        store_one = CallsTogether("store", store.append)
        first, second = (asyncio.create_task(store_one(number)) for number in (1, 2))
        await asyncio.sleep(0.002)
        first.cancel()
        assert await second == 20
        with pytest.raises(asyncio.CancelledError):
            await first

    run(play())
    assert store.calls == [[1, 2]]


def test_a_call_with_too_few_results_fails_for_all_who_wait() -> None:
    async def too_few(numbers: list[int]) -> list[int]:
        return numbers[1:]

    async def play() -> list[Any]:
        ask = CallsTogether("ask", too_few)
        return await asyncio.gather(*(ask(number) for number in (1, 2, 3)), return_exceptions=True)

    found = run(play())
    assert [str(error) for error in found] == ["ask: 2 results for 3 items"] * 3


def test_after_a_cancelled_call_nothing_of_it_is_left() -> None:
    store = Store()

    async def play() -> None:
        store_one = CallsTogether("store", store.append)
        waiting = [asyncio.create_task(store_one(number)) for number in (1, 2)]
        await asyncio.sleep(0.002)
        waiting.append(asyncio.create_task(store_one(3)))
        await asyncio.sleep(0)
        assert store_one._task is not None
        store_one._task.cancel()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in found)
        store.open = 0  # its call was cut off
        assert await store_one(4) == 40

    run(play())
    assert store.calls == [[1, 2], [4]]
