"""What a check-up says: one thing looked at, how it stands, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fault"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    level: Level
    subject: str
    text: str  # what is so, and unless it is fine what to do
