"""Trials as files: ``DIR/trials/ID.json`` has a finished one.

It is written in one step, and resuming tells Optuna of those that are there, so that nothing is read but JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cluster.comparison.cell import json_bytes
from cluster.comparison.sensitivity.ranges import values
from cluster.errors import RunError
from grpo_core.checkpoints.atomic_write import write_atomically

TRIALS, STUDY = "trials", "study.json"
RETURN = "return"


@dataclass(frozen=True, slots=True)
class Study:
    """What is varied: everything of this method on this task but the settings of ``RANGES``."""

    method: str
    task: str
    trials: int
    steps: int
    points: int
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """One that is over."""

    places: tuple[float, ...]  # in the unit cube, in the sequence of ``RANGES``
    rows: tuple[Mapping[str, Any], ...]
    error: str = ""  # why it diverged

    @property
    def settings(self) -> dict[str, float | int]:
        """Its settings."""
        return values(self.places)

    def returns(self, points: int) -> list[float]:
        """How good it was at each of ``points`` measurements; as at its start where it had diverged."""
        found = [goodness(row) for row in self.rows[1:]]
        return found + [goodness(self.rows[0])] * (points - len(found))


def goodness(row: Mapping[str, Any]) -> float:
    """What a measurement counts as: the return or, where there is one, minus the exploitability."""
    gap = row.get("exploitability")
    return float(row[RETURN]) if gap is None else -float(gap)


def write_trial(
    folder: Path, name: str, places: Sequence[float], rows: Sequence[Mapping[str, Any]], error: str
) -> None:
    """Keep a trial that is over."""
    write_atomically(folder / f"{name}.json", json_bytes({"places": places, "rows": rows, "error": error}))


def read_trials(folder: Path) -> list[Trial]:
    """All trials of a folder, by name."""
    found = []
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_bytes())
        found.append(Trial(tuple(map(float, content["places"])), tuple(content["rows"]), content["error"]))
    return found


def claim(out: Path, study: Study, *, resume: bool) -> None:
    """Make the folder this study's, which may have more trials than before.

    Raises RunError if it holds another one, or one without ``resume``.
    """
    path = out / STUDY
    wanted = json_bytes(asdict(study))
    if path.exists():
        if not resume:
            raise RunError(f"{out} holds a study already: add --resume to go on with it, or name another folder")
        kept = Study(**json.loads(path.read_bytes()))
        if replace(kept, trials=study.trials) != study:
            raise RunError(f"{out} holds another study: repeat the options that it was begun with")
        return
    if out.exists() and any(out.iterdir()):
        raise RunError(f"{out} is not empty and holds no study: name a new folder")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(path, wanted)
