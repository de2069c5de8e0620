"""What the processes of an imitation say, and in which order, decides what a user is told."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time

import pytest

from cluster.errors import RunError
from cluster.imitation.launcher import _listen
from cluster.runs.imitation_report import Failed, GamesHandedOver, ImitationReport


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
    # By another process, before the end of the killed one is noticed.
    theirs.send(Failed("reset by peer", expected=False))
    try:
        with pytest.raises(RunError, match=told):
            _listen([ours], [process], lambda name, steps: lambda done: None)
    finally:
        process.kill()
        process.join(10)
        ours.close()
        theirs.close()


def test_what_the_user_can_do_something_about_is_told_before_what_followed_from_it() -> None:
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe(duplex=False) for _ in range(3)]
    pipes[0][1].send(Failed("connection closed by peer", expected=False))
    pipes[2][1].send(Failed("needs at least two games", expected=True))
    pipes[2][1].close()
    try:
        with pytest.raises(RunError, match=r"^imitation: needs at least two games$"):
            _listen([ours for ours, _ in pipes], [], lambda name, steps: lambda done: None)
    finally:
        for end in (end for pipe in pipes for end in pipe):
            end.close()


def test_a_process_that_handed_over_its_games_may_end_before_the_first_one() -> None:
    context = multiprocessing.get_context("spawn")
    first, other = context.Pipe(duplex=False), context.Pipe(duplex=False)
    other[1].send(GamesHandedOver())
    other[1].close()
    report = ImitationReport("greedy", 2, 0, 90, 10, 1.0, (0.5,), 1.0, 1.0, "")
    threading.Timer(0.2, first[1].send, (report,)).start()
    try:
        assert _listen([first[0], other[0]], [], lambda name, steps: lambda done: None) == report
    finally:
        for end in (*first, other[0]):
            end.close()


def test_a_process_that_ends_without_handing_over_its_games_is_a_death() -> None:
    ours, theirs = multiprocessing.get_context("spawn").Pipe(duplex=False)
    theirs.close()
    with pytest.raises(RunError, match="a process of the imitation died"):
        _listen([ours], [], lambda name, steps: lambda done: None)
    ours.close()
