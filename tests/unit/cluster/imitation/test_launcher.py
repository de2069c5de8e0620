"""What the processes of an imitation say, and in which order, decides what a user is told."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import pytest

from cluster.errors import RunError
from cluster.imitation.launcher import _listen
from cluster.runs.imitation_report import Failed


@pytest.mark.parametrize(
    ("killed", "told"), [(True, "process of the imitation died.*another one said: reset"), (False, "imitation: reset")]
)
def test_a_failure_that_follows_from_a_death_is_told_as_the_death(killed: bool, told: str) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=time.sleep, args=(60 if killed else 0,))
    process.start()
    if killed:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
    theirs.send(Failed("reset by peer"))  # by another process, before the end of the killed one is noticed
    try:
        with pytest.raises(RunError, match=told):
            _listen([ours], [process], lambda name, steps: lambda done: None)
    finally:
        process.kill()
        process.join(10)
        ours.close()
        theirs.close()
