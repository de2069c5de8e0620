"""Runs games to their end, also for a caller inside a running event loop, such as a notebook's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

CANCEL_TIMEOUT_S = 10.0  # for what was interrupted to end

Result = TypeVar("Result")


class Run(Protocol):
    """Runs one coroutine function after another in one event loop."""

    def __call__(self, main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Call ``main`` in the loop and return its result; the caller waits, and its interruption cancels ``main``."""
        ...


@contextmanager
def event_loop() -> Iterator[Run]:
    """Open a new event loop, which ends with the block.

    A thread has one loop at a time, so a caller inside one gets its answers from a thread made for this.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner() as runner:
            yield lambda main: runner.run(main())
    else:
        with start_blocking_portal(name="entente-games") as portal:

            def run(main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
                return _called(portal, main)

            yield run


def _called(portal: BlockingPortal, main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Call ``main`` through the portal; when the caller is interrupted, ``main`` has ended before that is raised."""
    ended = threading.Event()

    async def watched() -> Result:
        try:
            return await main()
        finally:
            ended.set()

    future: Future[Result] = portal.start_task_soon(watched)
    try:
        return future.result()
    except BaseException:
        if future.cancel():  # it was not over
            ended.wait(CANCEL_TIMEOUT_S)
        raise


def run_in_loop(main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Call ``main`` in an event loop of its own and return its result; the caller waits."""
    with event_loop() as run:
        return run(main)
