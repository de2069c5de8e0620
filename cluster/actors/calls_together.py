"""Asks the replay buffer for many games at once, in few calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class CallsTogether(Generic[Item, Result]):
    """Items that arrive while a call is under way go together in the next one.

    A call waits for the server's disk, and its thread competes with the engine for the interpreter; short games begin
    and end by the hundred a second.
    """

    def __init__(self, name: str, call: Callable[[list[Item]], Awaitable[Sequence[Result]]]) -> None:
        """``call`` takes items and returns a result for each; it is called again only when the call before ended."""
        self._name = name
        self._call = call
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, item: Item) -> Result:
        """Return the item's result; raises what the call raised for the items that it had."""
        found: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, found))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=self._name)
        return await found

    async def _run(self) -> None:
        while self._waiting:
            together, self._waiting = self._waiting, []
            try:
                results = list(await self._call([item for item, _ in together]))
                if len(results) != len(together):
                    raise ValueError(f"{self._name}: {len(results)} results for {len(together)} items")
            except Exception as error:  # noqa: BLE001  (who waits for a result gets any error)
                for _, found in together:
                    if not found.done():
                        found.set_exception(error)
            except asyncio.CancelledError:
                for _, found in (*together, *self._waiting):
                    found.cancel()
                self._waiting = []
                raise
            else:
                for (_, found), result in zip(together, results, strict=True):
                    if not found.done():
                        found.set_result(result)
