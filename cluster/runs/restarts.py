"""Automatic recovery: after an accident a run restarts from its last checkpoint.

Accidents are a process that died, was stopped or is unreachable (``LostError``), and a replay server that is gone or
stays full (``ServerLostError``). Other errors end the run, because they would recur.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from cluster.errors import LateError, LostError, RunError
from cluster.runs.folder import RunFolder, last_update
from grpo_core.checkpoints.atomic_write import writing
from grpo_core.errors import StorageError
from grpo_core.files import read_bytes
from services.replay.buffer import ServerLostError

ACCIDENTS = (LostError, ServerLostError)
RESTARTS = "restarts.jsonl"
PAUSES_S = (2.0, 6.0, 18.0)  # before the first, second and each later restart in a row; servers also restart


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart of a lost run."""

    time: float  # unix seconds
    version: int  # newest update then
    reason: str


def note_restart(run_dir: Path, version: int, reason: str) -> None:
    """Add a restart to the run's record. Raises StorageError if it cannot be written."""
    path = run_dir / RESTARTS
    line = json.dumps(asdict(Restart(round(time.time(), 3), version, reason))) + "\n"
    with writing(path), path.open("a+b") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        torn = file.read(1) not in (b"", b"\n")  # a crash cut the last line short
        file.write(b"\n" * torn + line.encode())


def restarts(run_dir: Path) -> list[Restart]:
    """Read all restarts of a run, the oldest first; a line that a crash cut short is left out.

    Raises RunError if the file cannot be read.
    """
    try:
        lines = read_bytes(run_dir / RESTARTS).splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"{run_dir / RESTARTS} cannot be read: {error.strerror}") from error
    found = []
    for line in lines:
        with suppress(ValueError, RecursionError):  # msgspec's errors are ValueErrors
            found.append(msgspec.json.decode(line, type=Restart))
    return found


def keep_training(
    train: Callable[[bool], object],
    run_dir: Path,
    *,
    resume: bool,
    max_restarts: int,
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Call ``train(resume)`` until the run ends, with at most ``max_restarts`` restarts in a row without an update.

    Repeated updates do not count, because a run may fail at the same place each time. Each restart is a line in
    ``restarts.jsonl``. ``train`` must stop all its processes before it raises; ``say`` prints a line. The caller holds
    the folder (``RunFolder.held``), so that no other process takes it between two restarts.

    Raises RunError after one accident too many, with the last one's message; any other error of ``train`` at once, a
    StorageError with how to go on.
    """
    folder = RunFolder(run_dir)
    try:
        _keep_training(train, folder, resume, max_restarts, say, sleep)
    except StorageError as error:
        go_on = "go on with --resume: nothing that was durable is lost" if folder.begun else "start again"
        raise StorageError(f"{error}, then {go_on}") from error


def _keep_training(
    train: Callable[[bool], object],
    folder: RunFolder,
    resume: bool,
    max_restarts: int,
    say: Callable[[str], None],
    sleep: Callable[[float], None],
) -> None:
    run_dir = folder.path
    furthest, before, in_a_row = last_update(run_dir), _recorded(run_dir), 0
    while True:
        try:
            train(resume)
            return
        except ACCIDENTS as error:
            # Before the first update these more likely mean that a limit is too short or an address is wrong.
            if isinstance(error, LateError | ServerLostError) and not in_a_row and _recorded(run_dir) == before:
                raise
            version = last_update(run_dir)
            if version > furthest:
                furthest, in_a_row = version, 0
            if in_a_row >= max_restarts:
                tried = f", and starting again {in_a_row} times led to no further update (run.max_restarts)"
                raise RunError(
                    f"{error}{tried if in_a_row else ''}; the last checkpoint is intact: go on with --resume"
                ) from error
            reason = str(error)
            pause_s = PAUSES_S[min(in_a_row, len(PAUSES_S) - 1)]
            in_a_row += 1
            say(
                f"lost: {reason}; started again from the last checkpoint in {pause_s:g} s "
                f"({in_a_row} of {max_restarts} without a further update, run.max_restarts)"
            )
            note_restart(run_dir, version, reason)
        sleep(pause_s)
        resume = folder.begun


def _recorded(run_dir: Path) -> dict[str, int]:
    """Modification time of each update record."""
    return {path.name: path.stat().st_mtime_ns for path in (run_dir / "audit").glob("*.json")}
