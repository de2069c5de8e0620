"""A process that ends the processes of a run's own Ray when the run is killed.

Ray's agents outlive a killed driver by minutes. The reaper tracks every process that descends from the run and is
younger than itself. When the pipe from the run closes, it ends those that remain after a grace period, by process id
and start time. It works on Linux; elsewhere it does nothing. It runs as a script and imports only the standard library.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOOK_EVERY_S = 1.0
GRACE_S = 1.0  # for Ray to end by itself
SWEEP_S = 10.0


@contextmanager
def guarded() -> Iterator[Callable[[], None]]:
    """Ensure that processes started inside the block end soon after it, however this process ends.

    Yields a function that makes them end ``GRACE_S`` after it is called, for the last step inside the block.
    """
    from cluster.runtime.stop_signals import shielded  # here, because the script may not import it

    # Told and not asked for: a parent that has been killed meanwhile is init, of which all processes descend.
    root = os.getpid()
    command = [sys.executable, "-I", "-S", __file__, str(root), str(processes().get(root, (0, 0))[1])]
    with shielded():  # until it ignores the signals by itself
        reaper = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    assert reaper.stdin is not None
    try:
        yield reaper.stdin.close
    finally:
        reaper.stdin.close()
        try:
            reaper.wait(GRACE_S + SWEEP_S + 5.0)
        except subprocess.TimeoutExpired:  # not raised: it would hide why the block ended
            logging.getLogger(__name__).warning("processes of the run's own Ray do not end, and are left behind")
            reaper.kill()
            reaper.wait(5.0)


def processes() -> dict[int, tuple[int, int]]:
    """Parent and start time (clock ticks since boot) of each process except zombies, by process id."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The kernel cuts names at any byte, so they need not be valid UTF-8.
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if fields[0] != b"Z":
            found[int(folder.name)] = int(fields[1]), int(fields[19])
    return found


def descendants(root: tuple[int, int], since: int, known: dict[int, int]) -> dict[int, int]:
    """Start times by process id: those of ``known`` that still run, and all descendants of ``root`` or of these.

    ``root`` is a process id and the start time of its process: another one with this id has no part in it. Only
    descendants that started at ``since`` or later count.
    """
    running = processes()
    parents = {root[0]} if running.get(root[0], (0, -1))[1] == root[1] else set()
    family = {pid: started for pid, started in known.items() if running.get(pid, (0, -1))[1] == started}
    grew = True
    while grew:
        fresh = {
            pid: started
            for pid, (parent, started) in running.items()
            if pid not in family and pid != os.getpid() and started >= since and (parent in parents or parent in family)
        }
        family |= fresh
        grew = bool(fresh)
    return family


def guard(root: tuple[int, int]) -> None:
    """Track the descendants of ``root`` until standard input closes, then end those that remain."""
    since = processes().get(os.getpid(), (0, 0))[1]
    family: dict[int, int] = {}
    while not select.select([sys.stdin], [], [], LOOK_EVERY_S)[0]:
        family = descendants(root, since, family)
    grace_ends = time.monotonic() + GRACE_S
    while (family := descendants(root, since, family)) and time.monotonic() < grace_ends + SWEEP_S:
        for pid in family if time.monotonic() >= grace_ends else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


if __name__ == "__main__":
    # Sent to every process of a run at once; the run decides when it ends.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        guard((int(sys.argv[1]), int(sys.argv[2])))
