"""Reads a run's audit records: which episodes each update used."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any


def last_update(run_dir: Path) -> int:
    """Return the newest recorded update; after a restart, updates since the checkpoint are recorded again."""
    return max((int(file.stem) for file in (run_dir / "audit").glob("*.json")), default=0)


def audits(run_dir: Path) -> dict[int, dict[str, Any]]:
    """Read the audit records by the version that their update made, in order."""
    return {int(file.stem): json.loads(file.read_text()) for file in sorted((run_dir / "audit").glob("*.json"))}


def episodes_used(run_dir: Path) -> Counter[str]:
    """Count how often each episode was used for the newest policy, or left out because it came too late."""
    return Counter(name for record in audits(run_dir).values() for name in (*record["episodes"], *record["set_aside"]))
