"""``restarts.jsonl`` in a run's folder: when and why a run went on by itself."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

RESTARTS = "restarts.jsonl"


@dataclass(frozen=True, slots=True)
class Restart:
    """The run was lost and started again."""

    time: float  # unix seconds
    version: int  # newest update then
    reason: str


def note_restart(run_dir: Path, version: int, reason: str) -> None:
    """Add a line."""
    line = json.dumps(asdict(Restart(round(time.time(), 3), version, reason)))
    with (run_dir / RESTARTS).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def restarts(run_dir: Path) -> list[Restart]:
    """All of a run's, the oldest first; a line that a crash tore is left out."""
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
