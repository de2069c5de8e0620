"""What a tracker records, and the messages by which a run tells a tracker's process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from services.metrics.catalogue import Value, parse_key

Cell = str | int | float | bool | None


class TrackedRun(msgspec.Struct, frozen=True, tag="run"):
    """The run that a tracker records; the first message."""

    name: str
    run_id: str  # unique; the same after every restart and resume
    folder: str  # where the tracker writes, unless the user's environment says otherwise
    config: dict[str, Any]  # the resolved configuration, without secrets
    resume_after: int | None = None  # the version from which a resumed run continues; None: a new run


class Series(msgspec.Struct, frozen=True, tag="series"):
    """One update's measurements."""

    update: int
    time: float  # unix seconds
    values: dict[str, float | list[float]]  # by ``series_name``; a list: observations of a histogram


class Evaluations(msgspec.Struct, frozen=True, tag="evaluations"):
    """All evaluations so far; a later message replaces an earlier one."""

    update: int
    columns: list[str]
    rows: list[list[Cell]]


class Replay(msgspec.Struct, frozen=True, tag="replay"):
    """Saved games, which are kept as one artefact."""

    update: int
    name: str  # letters, digits, - _ .
    files: list[str]  # paths


Message = Series | Evaluations | Replay


class Tracker(Protocol):
    """Records one run; every method may raise whatever its library raises."""

    def series(self, message: Series) -> None:
        """Record an update's measurements."""

    def evaluations(self, message: Evaluations) -> None:
        """Record the table of evaluations."""

    def replay(self, message: Replay) -> None:
        """Keep saved games."""

    def finish(self) -> None:
        """Write or send everything; the last call."""


def series_name(key: str) -> str:
    """Return a measurement's name in trackers: ``entente_loss``, ``entente_country_centers/FRANCE``.

    Trackers take the part before the first slash for a group. Raises ``MetricsError`` as ``parse_key``.
    """
    metric, labels = parse_key(key)
    return "/".join((metric.name, *labels))


def series(update: int, time: float, values: Mapping[str, Value]) -> Series:
    """Return the message of an update's measurements, whose keys are the catalogue's; ``time`` in unix seconds."""
    named = {
        series_name(key): list(value) if isinstance(value, Sequence) else float(value) for key, value in values.items()
    }
    return Series(update, time, named)
