"""Ends what a run's own Ray leaves behind when the run is killed: a process beside it that waits for its end.

Ray's agents outlive a killed driver by minutes. The guardian remembers every process that descends from the run and is
younger than itself; when the pipe from the run closes, those that are still there after a while are ended, by process
id and start time. Linux only: elsewhere it does nothing. Run as a script, it imports nothing that needs installing.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOOK_EVERY_S = 1.0
GRACE_S = 1.0  # for Ray to end by itself
SWEEP_S = 10.0


@contextmanager
def guarded() -> Iterator[None]:
    """No process that this one starts inside the block outlives it by long, however this one ends."""
    guardian = subprocess.Popen([sys.executable, "-I", "-S", __file__], stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        assert guardian.stdin is not None
        guardian.stdin.close()
        try:
            guardian.wait(GRACE_S + SWEEP_S + 5.0)
        except subprocess.TimeoutExpired:  # and why the block ended is what counts
            logging.getLogger(__name__).warning("processes of the run's own Ray do not end, and are left behind")
            guardian.kill()
            guardian.wait(5.0)


def processes() -> dict[int, tuple[int, int]]:
    """Every process that is no zombie: parent and start time (clock ticks since boot) by process id."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # A name is whatever bytes the kernel cut it to, such as half a letter of another alphabet.
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # it has gone meanwhile
        if fields[0] != b"Z":
            found[int(folder.name)] = int(fields[1]), int(fields[19])
    return found


def descendants(root: int, since: int, known: dict[int, int]) -> dict[int, int]:
    """Start times by process id: what ``known`` holds, and all that descends from ``root`` or from what it holds."""
    everybody = processes()
    family = {pid: started for pid, started in known.items() if everybody.get(pid, (0, -1))[1] == started}
    grew = True
    while grew:
        fresh = {
            pid: started
            for pid, (parent, started) in everybody.items()
            if pid not in family and pid != os.getpid() and started >= since and (parent == root or parent in family)
        }
        family |= fresh
        grew = bool(fresh)
    return family


def guard(root: int) -> None:
    """Watch ``root``'s family until standard input closes, then end what is left of it."""
    since = processes().get(os.getpid(), (0, 0))[1]
    family: dict[int, int] = {}
    while not select.select([sys.stdin], [], [], LOOK_EVERY_S)[0]:
        family = descendants(root, since, family)
    family = descendants(root, since, family)
    deadline = time.monotonic() + GRACE_S
    while family and time.monotonic() < deadline:
        time.sleep(0.1)
        family = descendants(root, since, family)
    deadline = time.monotonic() + SWEEP_S
    while family and time.monotonic() < deadline:
        for pid in family:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.1)
        family = descendants(root, since, family)


if __name__ == "__main__":
    if sys.platform == "linux":
        guard(os.getppid())
