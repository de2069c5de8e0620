"""What a drill keeps: every fault with the time that it took to get over, and every promise with how it was kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from cluster.drill.faults import Reaction
from cluster.drill.reconciliation import Balance, Reconciliation
from cluster.runs.provenance import commit, provenance


@dataclass(frozen=True, slots=True)
class Overcome:
    """A fault that the run got over."""

    kind: str
    what: str
    at_s: float  # since the drill began
    update: int  # newest when it struck
    reaction: Reaction  # what the run did
    recovered_s: float  # until it had made a further update
    further_update: int


@dataclass(frozen=True, slots=True)
class Promise:
    """What was promised, and what was found."""

    text: str
    kept: bool
    found: str


@dataclass(slots=True)
class Record:
    """A drill as it goes on."""

    engine: str
    seed: int
    wanted: int  # faults
    overcome: list[Overcome] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)
    broken: str | None = None  # the first promise that was not kept
    began: float = field(default_factory=time.monotonic)

    @property
    def elapsed_s(self) -> float:
        """Since the drill began."""
        return time.monotonic() - self.began

    def document(self, command: str) -> dict[str, Any]:
        """Everything, as JSON."""
        return {
            "commit": commit(),
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "command": command,
            "machine": provenance(),
            "engine": self.engine,
            "seed": self.seed,
            "wall_seconds": round(self.elapsed_s, 1),
            "faults": [asdict(overcome) for overcome in self.overcome],
            "promises": [asdict(promise) for promise in self.promises],
            "broken": self.broken,
        }


def promises_of_books(books: Reconciliation, wrong: Balance, spoiled: int) -> list[Promise]:
    """What the books say of the promises about episodes."""
    used = len(books.used)
    return [
        Promise("no stored episode is lost", not wrong.lost, _told(len(books.stored), "stored", wrong.lost)),
        Promise("none is used twice", not wrong.used_twice, _told(used, "used", wrong.used_twice)),
        Promise("none comes from nowhere", not wrong.unknown, _told(len(books.stored), "stored", wrong.unknown)),
        Promise(
            "what was used is acknowledged, nothing else",
            books.acknowledged_counted == used,
            f"{books.acknowledged_counted:,} acknowledged, {used:,} used, {len(books.waiting):,} wait",
        ),
        Promise(
            "each unreadable entry is set aside and counted",
            books.poison_counted == len(books.poison) == spoiled,
            f"{spoiled} made, {len(books.poison)} set aside, {books.poison_counted} counted",
        ),
    ]


def _told(count: int, what: str, wrong: Sequence[str]) -> str:
    shown = ", ".join(wrong[:3]) + (" ..." if len(wrong) > 3 else "")
    return f"{count:,} {what}, {len(wrong)} wrong" + (f": {shown}" if wrong else "")
