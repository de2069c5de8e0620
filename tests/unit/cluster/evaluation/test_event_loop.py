"""One event loop for several calls, also inside a running one; an interruption ends what runs before it is raised."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable

import pytest

from cluster.evaluation import event_loop as module
from cluster.evaluation.event_loop import event_loop, run_in_loop


def in_a_running_loop(work: Callable[[], None]) -> None:
    async def cell() -> None:
        work()

    loop = asyncio.new_event_loop()  # asyncio.run would have a handler of its own
    try:
        loop.run_until_complete(cell())
    finally:
        loop.close()


WAYS = pytest.mark.parametrize("way", [lambda work: work(), in_a_running_loop], ids=["plain", "in a running loop"])


async def here() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


@WAYS
def test_calls_of_one_block_share_their_loop(way: Callable[[Callable[[], None]], None]) -> None:
    def work() -> None:
        with event_loop() as run:
            first = run(here)
            assert run(here) is first
        assert first.is_closed()
        assert run_in_loop(here) is not first

    way(work)


@WAYS
def test_an_error_is_the_callers_and_the_loop_goes_on(way: Callable[[Callable[[], None]], None]) -> None:
    async def fails() -> None:
        raise ValueError("no such player")

    def work() -> None:
        with event_loop() as run:
            with pytest.raises(ValueError, match="no such player"):
                run(fails)
            assert not run(here).is_closed()

    way(work)


@WAYS
def test_what_runs_has_ended_before_an_interruption_is_raised(way: Callable[[Callable[[], None]], None]) -> None:
    events: list[str] = []
    main_thread = threading.main_thread().ident
    assert main_thread is not None

    async def endless() -> None:
        try:
            signal.pthread_kill(main_thread, signal.SIGINT)  # once: a late second one would end pytest's process
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            time.sleep(0.05)  # the caller waits
            events.append("ended")
            raise

    async def close() -> None:
        events.append("closed")

    def work() -> None:
        with event_loop() as run:
            try:
                run(endless)
            except KeyboardInterrupt:
                events.append("interrupted")
            finally:
                run(close)

    before, handler = threading.active_count(), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        way(work)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert events == ["ended", "interrupted", "closed"]
    assert threading.active_count() == before


def test_an_interruption_is_raised_whatever_the_interrupted_work_raises() -> None:
    main_thread = threading.main_thread().ident
    assert main_thread is not None

    async def fails_to_end() -> None:
        signal.pthread_kill(main_thread, signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("its cleanup failed")

    def work() -> None:
        with event_loop() as run, pytest.raises(KeyboardInterrupt):
            run(fails_to_end)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        in_a_running_loop(work)
    finally:
        signal.signal(signal.SIGINT, handler)


def test_what_does_not_end_is_waited_for_no_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CANCEL_TIMEOUT_S", 0.2)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.05)
    main_thread, released = threading.main_thread().ident, threading.Event()
    assert main_thread is not None
    events: list[str] = []

    async def hangs() -> None:
        signal.pthread_kill(main_thread, signal.SIGINT)
        released.wait(60)  # blocks its loop, so that nothing can cancel it
        events.append("released")

    def work() -> None:
        with event_loop() as run:
            try:
                run(hangs)
            except KeyboardInterrupt:
                events.append("interrupted")
                released.set()

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        in_a_running_loop(work)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert events == ["interrupted", "released"]


@WAYS
def test_interruptions_are_raised_wherever_they_meet_the_caller(way: Callable[[Callable[[], None]], None]) -> None:
    main_thread = threading.main_thread().ident
    assert main_thread is not None

    async def interrupts_and_waits() -> None:
        signal.pthread_kill(main_thread, signal.SIGINT)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            time.sleep(0.01)
            raise

    def work() -> None:
        with event_loop() as run, pytest.raises(KeyboardInterrupt):
            run(interrupts_and_waits)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for _ in range(50):  # the interruption meets the caller at another place each time
            way(work)
    finally:
        signal.signal(signal.SIGINT, handler)
