"""Whether a process id still means the process it meant."""

from __future__ import annotations

import psutil

_CLOCK_SLACK_S = 2.0  # start times are told relative to the boot time, which clock adjustments move a little


def same_process(process: psutil.Process, started: float) -> bool:
    """Whether ``process`` is the one that started at ``started`` (seconds since 1970), not a later one of its id."""
    return bool(abs(process.create_time() - started) < _CLOCK_SLACK_S)
