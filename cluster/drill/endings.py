"""The ways in which a person or a job manager ends a run: what it says then, its exit status and its time."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from dataclasses import dataclass

import psutil

from cluster.drill.training_process import DrillFailedError, TrainingProcess, gone
from cluster.errors import INTERRUPTED

END_TIMEOUT_S = 120.0  # far more than a run needs, also on a busy machine


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

    status: int
    seconds: float  # from the signal until its last process was gone
    said: str  # its last line


def end_run(training: TrainingProcess, number: signal.Signals, *, to_all: bool) -> Ending:
    """Send a signal to the driver, or to every process of the run at once, and wait until all have ended.

    Raises DrillFailedError if one stays, or the run ends with another exit status than a run that has saved.
    """
    family = training.family()
    start = time.monotonic()
    for process in family if to_all else [training.driver]:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    status = training.finish(END_TIMEOUT_S)
    left = gone(family, END_TIMEOUT_S)
    ending = Ending(status, round(time.monotonic() - start, 1), training.last_line())
    if left:
        outlived = f"{len(left)} of the run's processes outlived {number.name} by {END_TIMEOUT_S:g} s"
        raise DrillFailedError(f"{outlived}: {ending.said}")
    if status != INTERRUPTED:
        raise DrillFailedError(f"at {number.name} the run ended with status {status}: {ending.said}")
    return ending
