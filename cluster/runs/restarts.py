"""Automatic recovery: after an accident a run restarts from its last checkpoint.

Accidents are a process that died, was stopped or is unreachable (``LostError``), and a replay server that is gone or
stays full (``ServerLostError``). Other errors end the run, because they would recur.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from cluster.errors import LateError, LostError, RunError
from cluster.runs.folder import RunFolder, last_update
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
    """Add a restart to the run's record."""
    with (run_dir / RESTARTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(Restart(round(time.time(), 3), version, reason))) + "\n")


def restarts(run_dir: Path) -> list[Restart]:
    """Read all restarts of a run, the oldest first; a line that a crash cut short is left out."""
    try:
        text = (run_dir / RESTARTS).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    found = []
    for line in text.splitlines():
        try:
            found.append(Restart(**json.loads(line)))
        except (ValueError, TypeError):
            continue
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
    ``restarts.jsonl``. ``train`` must stop all its processes before it raises; ``say`` prints a line.

    Raises RunError after one accident too many, with the last one's message; any other error of ``train`` at once.
    """
    folder = RunFolder(run_dir)
    furthest, before, in_a_row = last_update(run_dir), _recorded(run_dir), 0
    while True:
        try:
            train(resume)
            return
        except ACCIDENTS as error:
            # Before the first update these more likely mean that a limit is too short or an address is wrong.
            if isinstance(error, LateError | ServerLostError) and _recorded(run_dir) == before:
                raise
            version = last_update(run_dir)
            if version > furthest:
                furthest, in_a_row = version, 0
            if in_a_row >= max_restarts:
                tried = f", and starting again {in_a_row} times led to no further update (run.max_restarts)"
                raise RunError(
                    f"{error}{tried if in_a_row else ''}; the last checkpoint is intact: go on with --resume"
                ) from error
            reason = " ".join(str(error).split())
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
