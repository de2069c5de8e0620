"""``summary.json``: a run's totals, throughput and evaluations, over all processes that trained it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from cluster.errors import RunError
from cluster.imitation.control import CONTROL
from cluster.runs.counters import COUNTERS, NONFINITE
from cluster.runs.folder import RunFolder
from cluster.runs.imitation_report import read_report
from cluster.runs.provenance import commit, provenance
from grpo_core.checkpoints.folders import latest_checkpoint
from grpo_core.errors import CheckpointError
from grpo_core.models.stored_size import stored_size
from grpo_core.types import RoleMeasures

TRAINED, MUTED = "trained", "muted"  # labels of the last evaluations; muted: with the policy's letters withheld
# Work done while the policy trains -> the counter that counts it.
_WORK = {
    "games": "entente_games_total",
    "decisions": "entente_decisions_total",
    "completion_tokens": "entente_completion_tokens_total",
    "learner_tokens": "entente_learner_tokens_total",
}


class RunSummary:
    """Adds up training time and work from the run's ``counters``, keeps evaluations, and writes ``summary.json``."""

    def __init__(
        self,
        folder: RunFolder,
        run_name: str,
        config_digest: str,
        resume_after: int | None,
        updates: int = 0,
        press: Callable[[Sequence[Mapping[str, Any]]], dict[str, Any] | None] = lambda rows: None,  # noqa: ARG005
    ) -> None:
        """Begin a summary, or continue the one on disk from version ``resume_after``.

        Evaluations of later versions are left out: their updates are made again, and so are they. So is the control's,
        made after the last of ``updates``, if more are to come. ``press`` is ``World.press_summary``.
        """
        self._press = press
        self._folder = folder
        # Read before the training loop: git may take seconds.
        self._identity = {"run": run_name, "commit": commit(), "config_digest": config_digest}
        self._provenance = provenance()
        stored = {} if resume_after is None else folder.read_summary()
        # The metrics may lack these last values; the summary is written whenever a run ends.
        self.stored_counters = {
            NONFINITE: float(stored.get("nonfinite_updates", 0)),
            "entente_games_total": float(stored.get("games", 0)),
        }
        rows: list[dict[str, Any]] = stored.get("evaluations", [])
        self._evaluations = [row for row in rows if _version(row["checkpoint"], updates) <= (resume_after or 0)]
        self._training: dict[str, float] = dict(stored.get("training", {}))
        self._wall_before = float(stored.get("wall_seconds", 0.0))
        self._imitation = stored.get("imitation")
        self._policy: dict[str, int] | None = None
        with suppress(RunError):  # a damaged report: with a checkpoint nothing is imitated again
            self._imitation = read_report(folder.imitated) or self._imitation
        self._opened = time.monotonic()
        self._begin: tuple[float, dict[str, float]] | None = None

    @property
    def training(self) -> bool:
        """Whether time and work count for the throughput now."""
        return self._begin is not None

    @property
    def evaluations(self) -> Sequence[Mapping[str, Any]]:
        """The rows of the evaluations, in the order in which they were made."""
        return self._evaluations

    def training_begins(self, counters: Mapping[str, float]) -> None:
        """Start to count time and work for the throughput."""
        self._begin = (time.monotonic(), {name: counters[name] for name in COUNTERS})

    def training_ends(self, counters: Mapping[str, float]) -> None:
        """Stop counting; evaluations are not training."""
        self._training = self._training_total(counters)
        self._begin = None

    def has_evaluation(
        self, labels: Collection[str], checkpoint: str, against: str, games: int, facts: Mapping[str, str | int]
    ) -> bool:
        """Whether there is a row of these games, with these facts about them, under one of these labels."""
        wanted = {"checkpoint": checkpoint, "against": against, "games": games, **facts}
        return any(
            row["label"] in labels and wanted == {name: row.get(name) for name in wanted} for row in self._evaluations
        )

    def add_evaluation(self, label: str, row: Mapping[str, Any], seconds: float) -> None:
        """Add a row; it replaces an older one of the same checkpoint and opponent."""
        new = {"label": label, **row, "seconds": round(seconds, 1)}
        self._evaluations = [old for old in self._evaluations if _same(old) != _same(new)]
        self._evaluations.append(new)

    def start_values(self, measured: RoleMeasures) -> dict[str, float]:
        """The main measure of the untrained policy by role; empty if it was not evaluated."""
        name = measured.main.row_name
        for row in self._evaluations:
            if row["label"] == "untrained":
                return {role: cell[name] for role, cell in row[measured.by_role].items() if cell[name] is not None}
        return {}

    def throughput(self, counters: Mapping[str, float]) -> dict[str, float | None]:
        """Rates over the wall time of training alone; None before it has begun."""
        total = self._training_total(counters)
        seconds = total.get("seconds", 0.0)

        rates = {name: total.get(name, 0.0) / seconds if seconds > 0 else None for name in _WORK}
        games = rates.pop("games")
        return {
            "games_per_hour": None if games is None else games * 3600.0,
            **{f"{name}_per_second": rate for name, rate in rates.items()},
        }

    def training_seconds(self, counters: Mapping[str, float]) -> float:
        """Wall time of training alone, over all processes of the run."""
        return self._training_total(counters).get("seconds", 0.0)

    def write(self, version: int, counters: Mapping[str, float]) -> None:
        """Replace ``summary.json``."""
        self._folder.write_summary(
            {
                **self._identity,
                "updates": version,
                "episodes": int(counters["entente_episodes_total"]),
                "games": int(counters["entente_games_total"]),
                "nonfinite_updates": int(counters[NONFINITE]),
                "wall_seconds": round(self._wall_before + time.monotonic() - self._opened, 1),
                "throughput": self.throughput(counters),
                "policy": self._policy_size(),
                "imitation": self._imitation,
                "training": self._training_total(counters),
                "evaluations": self._evaluations,
                **({} if (press := self._press(self._evaluations)) is None else {"press": press}),
                "provenance": self._provenance,
            }
        )

    def _policy_size(self) -> dict[str, int] | None:
        """Count the parameters of the newest checkpoint, once; None before there is one, or if it is damaged."""
        newest = None if self._policy else latest_checkpoint(self._folder.path)
        if newest is not None:
            with suppress(CheckpointError):  # who resumes or plays from it gets the error
                size = stored_size(newest)
                self._policy = {"parameters": size.parameters, "trained_parameters": size.trained}
        return self._policy

    def _training_total(self, counters: Mapping[str, float]) -> dict[str, float]:
        total = dict(self._training)
        if self._begin is not None:
            start, before = self._begin
            done = {"seconds": time.monotonic() - start}
            done |= {work: counters[name] - before[name] for work, name in _WORK.items()}
            for name, value in done.items():
                total[name] = total.get(name, 0.0) + value
        return total


def _same(row: Mapping[str, Any]) -> tuple[str, str, bool]:
    """What tells the evaluations of a run apart."""
    return row["checkpoint"], row["against"], row["label"] == MUTED


def _version(checkpoint: str, updates: int) -> int:
    """Return the version of ``checkpoints/<version>``; 0 for the policies before, ``updates`` for the control's."""
    folder, _, version = checkpoint.partition("/")
    return int(version) if folder == "checkpoints" else updates if folder == CONTROL else 0
