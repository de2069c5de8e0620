"""One measured figure beside its yardstick, and how both are timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from grpo_core.errors import EntenteError

Side = TypeVar("Side", bound=str)


class MissingRequirementError(EntenteError):
    """A benchmark cannot run here; the message is one line that names what to install."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A rate or a duration of ours and of the yardstick, measured in the same run."""

    name: str  # e.g. "game loop"
    unit: str  # e.g. "phases/s", or "s" for durations
    ours: float
    yardstick: float
    yardstick_name: str  # e.g. "plain loop over the engine"
    lower_is_better: bool = False
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times better ours is: ours / yardstick for rates, yardstick / ours for durations."""
        return self.yardstick / self.ours if self.lower_is_better else self.ours / self.yardstick

    def document(self, benchmark: str) -> dict[str, Any]:
        """The figure as JSON."""
        return {"benchmark": benchmark, **asdict(self), "ratio": self.ratio}


def interleaved_seconds(sides: Mapping[Side, Callable[[], object]], rounds: int) -> dict[Side, float]:
    """Median seconds of every side. The sides run in turn, so that a machine's drift affects all of them."""
    seconds: dict[Side, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread inside the block."""
    import torch  # slow to import; a wrong name on the command line needs none of it

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
