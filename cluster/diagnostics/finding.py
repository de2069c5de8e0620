"""One result of a check: its level, its subject, and advice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fault"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check."""

    level: Level
    subject: str
    text: str  # the state, and advice unless the level is ok
