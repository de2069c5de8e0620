"""The record of a drill: every fault with its recovery time, and the result of every check."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from cluster.drill.endings import Ending
from cluster.drill.faults.context import Reaction
from cluster.drill.reconciliation import Balance, Reconciliation
from cluster.runs.provenance import commit, provenance


@dataclass(frozen=True, slots=True)
class RecoveredFault:
    """A fault that the run recovered from."""

    kind: str
    what: str
    at_s: float  # since the drill began
    update: int  # the newest when the fault was caused
    reaction: Reaction  # what the run did
    recovered_s: float  # until it had made a further update
    further_update: int
    ending: Ending | None = None  # if the fault asked the run to end


@dataclass(frozen=True, slots=True)
class Check:
    """One check at the end of a drill."""

    text: str
    passed: bool
    found: str


@dataclass(slots=True)
class Record:
    """A drill under way."""

    engine: str
    server: str
    seed: int
    wanted: int  # faults
    recovered: list[RecoveredFault] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    lengths: dict[str, Any] | None = None  # of games, with and without faults
    failure: str | None = None  # the first failure
    began: float = field(default_factory=time.monotonic)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the drill began."""
        return time.monotonic() - self.began

    def document(self, command: str) -> dict[str, Any]:
        """Everything, as JSON."""
        return {
            "commit": commit(),
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "command": command,
            "machine": provenance(),
            "engine": self.engine,
            "server": self.server,
            "seed": self.seed,
            "wall_seconds": round(self.elapsed_s, 1),
            "faults": [asdict(fault) for fault in self.recovered],
            "checks": [asdict(check) for check in self.checks],
            "lengths": self.lengths,
            "failure": self.failure,
        }


def episode_checks(found: Reconciliation, wrong: Balance, damaged: int) -> list[Check]:
    """The checks of a reconciliation, with ``damaged`` episodes made unreadable."""
    used = len(found.used)
    return [
        Check("no stored episode is lost", not wrong.lost, _counted(len(found.stored), "stored", wrong.lost)),
        Check("none is used twice", not wrong.used_twice, _counted(used, "used", wrong.used_twice)),
        Check("none comes from nowhere", not wrong.unknown, _counted(len(found.stored), "stored", wrong.unknown)),
        Check(
            "what was used is acknowledged, nothing else",
            found.acknowledged_counted == used,
            f"{found.acknowledged_counted:,} acknowledged, {used:,} used, {len(found.waiting):,} wait",
        ),
        Check(
            "each unreadable entry is set aside and counted",
            found.poison_counted == len(found.poison) == damaged,
            f"{damaged} made, {len(found.poison)} set aside, {found.poison_counted} counted",
        ),
    ]


def _counted(count: int, what: str, wrong: Sequence[str]) -> str:
    shown = ", ".join(wrong[:3]) + (" ..." if len(wrong) > 3 else "")
    return f"{count:,} {what}, {len(wrong)} wrong" + (f": {shown}" if wrong else "")
