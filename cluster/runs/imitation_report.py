"""What the processes of an imitation tell the one that started them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.configs.schema import Config

REPORT = "imitation.json"
UNTRAINED = "untrained"  # folder, within the imitating policy's, of the policy before


@dataclass(frozen=True, slots=True)
class StageBegan:
    """A stage of so many steps; every process says so, once."""

    name: str
    steps: int


@dataclass(frozen=True, slots=True)
class StepsDone:
    """Further steps of a stage."""

    name: str
    steps: int


@dataclass(frozen=True, slots=True)
class Failed:
    """It cannot go on, in one line."""

    reason: str


@dataclass(frozen=True, slots=True)
class ImitationReport:
    """What was learned from whom; nats are negative log-likelihoods a chosen token, in games not learned from."""

    teacher: str
    games: int
    saved_games: int
    decisions: int  # learned from
    held_out_decisions: int
    nats_before: float
    nats_after: tuple[float, ...]  # after each epoch
    playing_seconds: float
    training_seconds: float
    made_from: str  # digest of the settings that decide what comes out


Message = StageBegan | StepsDone | Failed | ImitationReport


def made_from(config: Config) -> str:
    """Digest of what decides the policy that imitation gives."""
    parts = [config.policy.model_dump(mode="json"), config.imitation.model_dump(mode="json"), config.run.seed]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def read_report(folder: Path) -> dict[str, Any] | None:
    """The ``ImitationReport`` that lies in an imitating policy's folder, as plain data; None where there is none."""
    try:
        report: dict[str, Any] = json.loads((folder / REPORT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return report
