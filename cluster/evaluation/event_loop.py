"""Runs games to their end, also for a caller inside a running event loop, such as a notebook's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from anyio.from_thread import start_blocking_portal

Result = TypeVar("Result")


def run_in_loop(main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Call ``main`` in a new event loop and return its result; the caller waits.

    A thread has one loop at a time, so a caller inside one gets its answer from a thread made for this. An interruption
    of the caller cancels ``main`` in both cases.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(main())
    with start_blocking_portal(name="entente-games") as portal:
        result: Result = portal.call(main)
        return result
