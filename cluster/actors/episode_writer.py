"""Stores the episodes of many games in the replay buffer, in few calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from grpo_core.types import Episode


class EpisodeWriter:
    """Episodes that end while a call is under way go together in the next one.

    A call waits for the server's disk, and its thread competes with the engine for the interpreter; short games end by
    the hundred a second.
    """

    def __init__(self, append: Callable[[list[Episode]], Awaitable[object]]) -> None:
        """``append`` stores episodes; it is called again only when the call before has ended."""
        self._append = append
        self._waiting: list[tuple[Episode, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def store(self, episode: Episode) -> None:
        """Return once the episode is stored; raises what ``append`` raised for those that it was stored with."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((episode, stored))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write(), name="episode writer")
        await stored

    async def _write(self) -> None:
        while self._waiting:
            together, self._waiting = self._waiting, []
            error: BaseException | None = None
            try:
                await self._append([episode for episode, _ in together])
            except Exception as caught:  # noqa: BLE001  (who waits for an episode gets any error)
                error = caught
            except asyncio.CancelledError:
                for _, stored in (*together, *self._waiting):
                    stored.cancel()
                raise
            for _, stored in together:
                if not stored.done():
                    stored.set_result(None) if error is None else stored.set_exception(error)
