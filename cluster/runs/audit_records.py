"""What a run's audit records say of its episodes: which were used, and in which update."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any


def last_update(run_dir: Path) -> int:
    """The newest update on record; after a restart those behind the checkpoint are made and recorded again."""
    return max((int(file.stem) for file in (run_dir / "audit").glob("*.json")), default=0)


def audits(run_dir: Path) -> dict[int, dict[str, Any]]:
    """Audit records by the version that their update made, in order."""
    return {int(file.stem): json.loads(file.read_text()) for file in sorted((run_dir / "audit").glob("*.json"))}


def episodes_used(run_dir: Path) -> Counter[str]:
    """How often each episode was used on the way to the newest policy; what came too late was set aside, once."""
    return Counter(name for record in audits(run_dir).values() for name in (*record["episodes"], *record["set_aside"]))
