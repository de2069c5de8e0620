"""The data of the terminal display, which ``layout`` renders."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from services.metrics.rolling_windows import CountrySummary

SPARKLINE_POINTS = 16  # snapshots
_PACE_SNAPSHOTS = 20  # updates from which the time left is estimated


@dataclass(frozen=True, slots=True)
class DisplaySnapshot:
    """The figures after one update; ``None`` means no data and is shown as a dash."""

    update: int  # updates made, 0 before the first
    games: int
    episodes: int
    countries: Mapping[str, CountrySummary | None]  # in the order of the table
    games_per_hour: float | None = None
    decisions_per_second: float | None = None
    completion_tokens_per_second: float | None = None
    learner_tokens_per_second: float | None = None
    staleness: float | None = None  # updates, mean
    loss: float | None = None
    kl: float | None = None  # nats
    entropy: float | None = None  # nats
    start_centers: Mapping[str, float] = field(default_factory=dict)  # the reference of "change"; else the first seen


@dataclass(slots=True)
class DisplayState:
    """All that the layout renders."""

    total_updates: int
    started: float  # monotonic seconds
    stage: str = "setting up"
    stage_done: int = 0
    stage_total: int | None = None
    stage_started: float = 0.0
    snapshot: DisplaySnapshot | None = None
    first_centers: dict[str, float] = field(default_factory=dict)
    history: dict[str, deque[float]] = field(default_factory=dict)  # centres of past snapshots, oldest first
    pace: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_PACE_SNAPSHOTS))

    def add(self, snapshot: DisplaySnapshot, now: float) -> None:
        """Make a snapshot the current one."""
        self.snapshot = snapshot
        self.pace.append((now, snapshot.update))
        for country, summary in snapshot.countries.items():
            if summary is None:
                continue
            self.first_centers.setdefault(country, summary.centers)
            self.history.setdefault(country, deque(maxlen=SPARKLINE_POINTS)).append(summary.centers)
        self.first_centers.update(snapshot.start_centers)

    def seconds_left(self, now: float) -> float | None:
        """Return the time to the last update at the recent pace; None before two updates."""
        if len(self.pace) < 2:
            return None
        (first_time, first), (last_time, last) = self.pace[0], self.pace[-1]
        if last <= first:
            return None
        seconds_each = (last_time - first_time) / (last - first)
        return max(0.0, seconds_each * (self.total_updates - last) - (now - last_time))
