"""Who can sit at a seat."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PERSON = "person"  # the player of a seat whose orders come from the page
Kind = Literal["bot", "policy", "remote"]


@dataclass(frozen=True, slots=True)
class Source:
    """How a player is opened: by a name of ``open_policy``, or as a member of a run's population."""

    kind: Kind
    name: str  # for ``open_policy``, or the member's id
    run: Path | None = None
    is_opened_ahead: bool = True  # a policy, unless it is there without being named
