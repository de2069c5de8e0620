"""Runs games to their end, also for a caller inside a running event loop, such as a notebook's."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Protocol, TypeVar

from anyio import CancelScope
from anyio.from_thread import BlockingPortal, start_blocking_portal

CANCEL_TIMEOUT_S = 10.0  # for what was interrupted to end
LOOK_EVERY_S = 1.0

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
    interrupts = _Interrupts()

    async def watched() -> Result:
        try:
            with CancelScope() as scope:
                interrupts.cancel(asyncio.get_running_loop(), scope)
                return await main()
            raise _InterruptedError  # the scope was cancelled
        finally:
            ended.set()

    with interrupts.noted_in_main_thread():
        future: Future[Result] = portal.start_task_soon(watched)
        try:
            while not future.done():
                wait([future], LOOK_EVERY_S)
                interrupts.check_patience()
            result = future.result()
        except BaseException as error:  # an interruption may also be a second one, or one by another's handler
            if future.cancel():  # it was not over
                ended.wait(CANCEL_TIMEOUT_S)
            if isinstance(error, KeyboardInterrupt) or not interrupts.noted:
                raise
            raise KeyboardInterrupt from error
    if interrupts.noted:  # too late to cancel anything
        raise KeyboardInterrupt
    return result


class _InterruptedError(Exception):
    """The call was cancelled because its caller was interrupted."""


class _Interrupts:
    """What Ctrl-C does to a caller that waits for another thread: the first cancels the call, a second is raised.

    As in ``asyncio.Runner``, the first is noted and not raised where the caller stands: an exception raised between the
    start of a call and the wait for it would leave the call running.
    """

    def __init__(self) -> None:
        self.noted = False
        self._noted_at = 0.0  # on the monotonic clock
        self._is_over = False  # the caller waits no longer
        self._call: tuple[asyncio.AbstractEventLoop, CancelScope] | None = None

    def cancel(self, loop: asyncio.AbstractEventLoop, scope: CancelScope) -> None:
        """Name the call that an interruption cancels; one that came earlier cancels it now."""
        self._call = loop, scope
        if self.noted:
            scope.cancel()

    @contextmanager
    def noted_in_main_thread(self) -> Iterator[None]:
        """Note SIGINT within the block; other handlers than Python's own, and other threads, are left alone."""
        in_main_thread = threading.current_thread() is threading.main_thread()
        if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._note)
        try:
            yield
        finally:
            try:
                self._is_over = True
            finally:
                signal.signal(signal.SIGINT, signal.default_int_handler)

    def check_patience(self) -> None:
        """Raise KeyboardInterrupt if what was interrupted has not ended within ``CANCEL_TIMEOUT_S``."""
        if self.noted and time.monotonic() - self._noted_at > CANCEL_TIMEOUT_S:
            raise KeyboardInterrupt

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self.noted and not self._is_over:
            raise KeyboardInterrupt
        self.noted, self._noted_at = True, time.monotonic()
        if self._call is not None:
            loop, scope = self._call
            with suppress(RuntimeError):  # the call is over and its loop closed
                loop.call_soon_threadsafe(scope.cancel)


def run_in_loop(main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Call ``main`` in an event loop of its own and return its result; the caller waits."""
    with event_loop() as run:
        return run(main)
