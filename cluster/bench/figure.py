"""One measured figure beside its yardstick."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from grpo_core.errors import EntenteError


@dataclass(frozen=True, slots=True)
class Figure:
    """A rate or a duration of ours and of the yardstick, taken in the same run.

    ``ratio`` is how many times better ours is: ours / yardstick for rates, yardstick / ours for durations.
    """

    name: str  # e.g. "game loop"
    unit: str  # e.g. "phases/s", or "s" for durations
    ours: float
    yardstick: float
    yardstick_name: str  # e.g. "plain loop over the engine"
    lower_is_better: bool = False
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times better ours is than the yardstick."""
        return self.yardstick / self.ours if self.lower_is_better else self.ours / self.yardstick


def interleaved_seconds(ours: Callable[[], None], yardstick: Callable[[], None], rounds: int) -> tuple[float, float]:
    """Median seconds of both, run alternately, so that a machine's drift falls on both alike."""
    ours_s: list[float] = []
    yardstick_s: list[float] = []
    for _ in range(rounds):
        for run, seconds in ((ours, ours_s), (yardstick, yardstick_s)):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
    return statistics.median(ours_s), statistics.median(yardstick_s)


class MissingRequirementError(EntenteError):
    """A benchmark cannot run here; the message is one line that says what to install."""
