"""How a run's process answers the signals that ask it to stop: all raise KeyboardInterrupt.

Job managers send SIGTERM to every process of a run at once, and a closed terminal sends SIGHUP to all of them. Only the
run's own process may act on these: it saves, and then ends the others. So the others start with the signals blocked,
which they inherit, whatever handlers they install.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SENT_TO_ALL = (signal.SIGTERM, signal.SIGHUP)
# Signals this close are one request: a job manager sends SIGTERM and SIGHUP, a terminal and a wrapper SIGINT each.
TOGETHER_S = 2.0
KILL_TIMEOUT_S = 10.0

_stop_requested = False
_requested_at = 0.0  # time.monotonic() of the last one
_show_other = sys.unraisablehook


def stop_at_signals() -> None:
    """Raise KeyboardInterrupt at SIGINT, SIGTERM and SIGHUP; the last stays ignored under ``nohup``.

    Several of them within ``TOGETHER_S`` raise it once, so that the second does not end the save that the first began.
    Nothing is printed about one that a finalizer swallows, because ``check_stop`` raises it again. Python handles
    signals in the main thread alone, so in another thread this does nothing.
    """
    global _show_other
    if not _in_main_thread():
        return
    if sys.unraisablehook is not _show_unraisable:
        _show_other = sys.unraisablehook
        sys.unraisablehook = _show_unraisable
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _hang_up)


def check_stop() -> None:
    """Raise KeyboardInterrupt if a signal has asked to stop; loops that wait call it.

    An exception that a signal's handler raises is lost if it interrupts a finalizer or a callback.
    """
    if _stop_requested:
        raise KeyboardInterrupt


def ignore_further_signals() -> None:
    """Ignore all stop signals from now on, so that they do not cut a save short."""
    global _stop_requested
    if _in_main_thread():
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        _stop_requested = False


@contextmanager
def handlers_restored() -> Iterator[None]:
    """Undo at the end of the block what the functions above changed, in a process that goes on, such as a notebook's.

    A request to stop that came inside the block is forgotten with it. In another thread than the main one this does
    nothing, because nothing is changed there.
    """
    global _stop_requested
    if not _in_main_thread():
        yield
        return
    before, shown_by = {number: signal.getsignal(number) for number in STOP_SIGNALS}, sys.unraisablehook
    _stop_requested = False
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: it is not Python's
        sys.unraisablehook = shown_by
        _stop_requested = False


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def shielded() -> Iterator[None]:
    """Let processes and threads that start inside the block never see SIGTERM and SIGHUP; SIGKILL ends processes.

    Such a signal to this process waits until the end of the block, if all its other threads are shielded too. It has to
    wait while Ray starts, which for a moment has a handler that ends the process.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SENT_TO_ALL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_shielded(process: BaseProcess) -> None:
    """Start a process as in ``shielded``; a signal that came meanwhile ends it and raises KeyboardInterrupt."""
    resource_tracker.ensure_running()  # else ``start`` would start the tracker, which lets SIGTERM through again
    try:
        with shielded():
            process.start()
    except BaseException:
        if process.pid is not None:
            process.kill()
            process.join(KILL_TIMEOUT_S)
        raise


def _stop(_number: int, _frame: FrameType | None) -> None:
    global _stop_requested, _requested_at
    again, now = _stop_requested, time.monotonic()
    since_s, _requested_at = now - _requested_at, now
    _stop_requested = True
    if not (again and since_s < TOGETHER_S):
        raise KeyboardInterrupt


def _show_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Show an exception that a finalizer or a callback swallowed, unless a stop signal raised it."""
    if not (_stop_requested and issubclass(unraisable.exc_type, KeyboardInterrupt)):
        _show_other(unraisable)


def _hang_up(number: int, frame: FrameType | None) -> None:
    """Send the terminal's output nowhere, because writing to a closed one raises an error; then stop."""
    with suppress(OSError):  # too many files are open
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            with suppress(OSError):  # it is not open
                if stat.S_ISCHR(os.fstat(descriptor).st_mode):  # a closed terminal is no tty any more
                    os.dup2(nowhere, descriptor)
        os.close(nowhere)
    _stop(number, frame)
