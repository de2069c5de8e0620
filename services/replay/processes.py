"""Checks that a process id still names the same process."""

from __future__ import annotations

import psutil

_CLOCK_SLACK_S = 2.0  # start times are relative to the boot time, which clock adjustments move a little


def same_process(process: psutil.Process, started: float) -> bool:
    """Return whether ``process`` started at ``started`` (unix seconds) and is not a later one with the same id."""
    return bool(abs(process.create_time() - started) < _CLOCK_SLACK_S)
