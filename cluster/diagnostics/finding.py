"""One result of a check: its level, its subject, and advice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check."""

    level: Literal["ok", "warn", "fault"]
    subject: str
    text: str  # the state, and advice unless the level is ok


ok, warn, fault = partial(Finding, "ok"), partial(Finding, "warn"), partial(Finding, "fault")
