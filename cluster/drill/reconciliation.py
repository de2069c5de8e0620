"""The fate of every episode of a run: used once, set aside or waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster.drill.replay_clients import ReplayClients
from cluster.runs.folder import RunFolder, episodes_used
from grpo_core.checkpoints.folders import verified_manifest
from grpo_core.errors import CheckpointError
from services.metrics.jsonl import read_metrics


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """A finished run's episodes by id, from its audit records and replay server."""

    stored: frozenset[str]  # every episode whose storing was confirmed to a rollout worker
    used: Mapping[str, int]  # how often, in the updates that led to the final policy
    poison: tuple[str, ...]  # set aside because they could not be read
    waiting: frozenset[str]  # not used yet, or not acknowledged
    poison_counted: int
    acknowledged_counted: int


@dataclass(frozen=True, slots=True)
class Balance:
    """The errors of a reconciliation, by kind."""

    lost: tuple[str, ...]  # stored, and in no place now
    used_twice: tuple[str, ...]  # in two updates; or used, and set aside or waiting as well
    unknown: tuple[str, ...]  # used or set aside, never stored


def balance(reconciliation: Reconciliation) -> Balance:
    """Find episodes that are not in exactly one place: used once, set aside or waiting."""
    places = Counter(reconciliation.used) + Counter(reconciliation.poison) + Counter(reconciliation.waiting)
    return Balance(
        lost=_sorted(reconciliation.stored - places.keys()),
        used_twice=_sorted(name for name, count in places.items() if count > 1),
        unknown=_sorted(places.keys() - reconciliation.stored),
    )


def read_reconciliation(run_dir: Path, store: ReplayClients, seen_stored: Collection[str]) -> Reconciliation:
    """Read the reconciliation of a finished run.

    ``seen_stored`` has the episodes that were in the server during the run: it may have lost some without a trace.
    """
    counters = store.counters()
    return Reconciliation(
        stored=store.stored().union(seen_stored),
        used=episodes_used(run_dir),
        poison=tuple(store.poison()),
        waiting=frozenset(store.waiting()),
        poison_counted=counters.get("poison", 0),
        acknowledged_counted=counters.get("acknowledged", 0),
    )


def damaged_checkpoints(folder: RunFolder) -> list[str]:
    """Numbers of the checkpoints that are not as they were written."""
    numbered = [path for path in folder.checkpoints.iterdir() if path.name.isdigit()]
    return sorted(path.name for path in numbered if not _as_written(path))


def updates_recorded(folder: RunFolder) -> list[int]:
    """The updates in ``metrics.jsonl``, in its order."""
    return [line.update for line in read_metrics(folder.metrics) if "entente_loss" in line.metrics]


def _as_written(checkpoint: Path) -> bool:
    try:
        verified_manifest(checkpoint)
    except CheckpointError:
        return False
    return True


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
