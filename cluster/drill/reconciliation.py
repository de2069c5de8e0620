"""What became of every episode: the books of a run, closed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster.drill.replay_store import Store
from cluster.runs.audit_records import episodes_used
from cluster.runs.folder import RunFolder
from grpo_core.checkpoints.folders import verified_manifest
from grpo_core.errors import CheckpointError
from services.metrics.jsonl import read_metrics


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """A finished run's episodes by id, as audit records and replay server tell."""

    stored: frozenset[str]  # whose storing was confirmed to a rollout worker, ever
    used: Mapping[str, int]  # how often, in the updates that led to the final policy
    poison: tuple[str, ...]  # set aside because they could not be read
    waiting: frozenset[str]  # not used yet, or not acknowledged
    poison_counted: int
    acknowledged_counted: int


@dataclass(frozen=True, slots=True)
class Balance:
    """What is wrong with some books; empty where all is well."""

    lost: tuple[str, ...]  # stored, and nowhere any more
    used_twice: tuple[str, ...]  # in two updates; or used, and set aside or waiting as well
    unknown: tuple[str, ...]  # used or set aside, never stored


def balance(books: Reconciliation) -> Balance:
    """Every stored episode must be used once, or set aside, or wait: one of these."""
    places = Counter(books.used) + Counter(books.poison) + Counter(books.waiting)
    return Balance(
        lost=_sorted(books.stored - places.keys()),
        used_twice=_sorted(name for name, count in places.items() if count > 1),
        unknown=_sorted(places.keys() - books.stored),
    )


def read_books(run_dir: Path, store: Store, witnessed: Collection[str]) -> Reconciliation:
    """The books of a run that has ended.

    Args:
        run_dir: with its audit records.
        store: what the server tells; of what it forgot altogether, it tells nothing.
        witnessed: episodes that were seen stored while the run went on.
    """
    counters = store.counters()
    return Reconciliation(
        stored=store.stored().union(witnessed),
        used=episodes_used(run_dir),
        poison=tuple(store.poison()),
        waiting=store.waiting(),
        poison_counted=counters.get("poison", 0),
        acknowledged_counted=counters.get("acknowledged", 0),
    )


def damaged_checkpoints(folder: RunFolder) -> list[str]:
    """Checkpoints, by number, that are not as they were written."""
    numbered = [path for path in folder.checkpoints.iterdir() if path.name.isdigit()]
    return sorted(path.name for path in numbered if not _as_written(path))


def updates_recorded(folder: RunFolder) -> list[int]:
    """Updates in ``metrics.jsonl``, in its order; each must be there once."""
    return [line.update for line in read_metrics(folder.metrics) if "entente_loss" in line.metrics]


def _as_written(checkpoint: Path) -> bool:
    try:
        verified_manifest(checkpoint)
    except CheckpointError:
        return False
    return True


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
