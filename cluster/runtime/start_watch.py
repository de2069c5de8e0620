"""Notices that Ray's control service (GCS) ended while Ray starts.

Ray would then wait for it for a minute, and abort this process with a text of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

from cluster.runtime.ray_watch import CHECK_EVERY_S, HANGING_S, end_process

_PROGRAM = "gcs_server"
_MESSAGE = (
    "Ray's control service (GCS) ended while Ray started, and Ray does not answer; is the machine out of memory? Start "
    "again: what a run has saved is intact"
)


@contextmanager
def start_watched(end: Callable[[str], None] = end_process, hanging_s: float = HANGING_S) -> Iterator[None]:
    """Watch the control service that is started inside the block; if it ends, the block may last ``hanging_s`` longer.

    After that ``end`` is called with a message; by default it ends this process with exit code 2.
    """
    over = threading.Event()
    before = _control_services()
    thread = threading.Thread(
        target=_watch, args=(before, over, end, hanging_s), name="entente-start-watch", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(CHECK_EVERY_S)


def _watch(before: set[int], over: threading.Event, end: Callable[[str], None], hanging_s: float) -> None:
    seen: set[int] = set()
    gone_since: float | None = None
    while not over.wait(CHECK_EVERY_S):
        there, now = _control_services() - before, time.monotonic()
        seen |= there
        gone_since = (gone_since or now) if seen and not there else None
        if gone_since is not None and now - gone_since >= hanging_s:
            end(_MESSAGE)
            return


def _control_services() -> set[int]:
    """The process ids of control services that this process started and that run."""
    found = set()
    for child in psutil.Process().children(recursive=True):
        try:
            if child.name() == _PROGRAM and child.status() != psutil.STATUS_ZOMBIE:
                found.add(child.pid)
        except psutil.NoSuchProcess:
            continue
    return found
