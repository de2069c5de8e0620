"""Checks that the learner's processes are alive, with time limits that stand still while the driver is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cluster.errors import LostError
from cluster.runtime.ray_calls import get_answer, never_away

HEARTBEAT_GROUP = "heartbeat"  # Ray's concurrency group of the thread that answers
HEARTBEAT_EVERY_S = 2.0
MAX_STEP_S = 5.0  # longer times between two checks count as this long


class StallTimer:
    """A limit on waiting that counts only while the driver checks it: a driver may be suspended for hours."""

    def __init__(
        self, limit_s: float, clock: Callable[[], float] = time.monotonic, away_s: Callable[[], float] = never_away
    ) -> None:
        """Start the wait; ``away_s`` returns the seconds so far in which it stood still (``ServerWatch``)."""
        self.limit_s = limit_s
        self._clock = clock
        self._away_s = away_s
        self.restart()

    def restart(self) -> None:
        """Start the wait again from zero."""
        self._checked, self._stood_s, self._waited_s = self._clock(), self._away_s(), 0.0

    def over(self) -> bool:
        """Whether the limit is passed; call this at every poll."""
        now, stood_s = self._clock(), self._away_s()
        waited_s = now - self._checked - (stood_s - self._stood_s)
        self._waited_s += min(max(0.0, waited_s), MAX_STEP_S)
        self._checked, self._stood_s = now, stood_s
        return self._waited_s > self.limit_s


class Heartbeat:
    """Calls one of the learner's processes at intervals; a separate thread answers there, even during an update.

    It finds a stopped process long before the limit on updates, which finds a computation that hangs.
    """

    def __init__(
        self,
        send: Callable[[], Any],
        limit_s: float,
        clock: Callable[[], float] = time.monotonic,
        answered: Callable[[Any], bool] | None = None,
        away_s: Callable[[], float] = never_away,
        who: str = "the learner",
    ) -> None:
        """Send nothing yet; ``limit_s`` is the longest silence allowed, ``away_s`` as for ``StallTimer``.

        ``send`` calls the process and returns a reference to its answer. ``answered`` tells whether a reference has its
        answer, by default from Ray; it raises LostError if the process has ended. ``who`` names the process in errors.
        """
        self._send = send
        self._silence = StallTimer(limit_s, clock, away_s)
        self._clock = clock
        self._answered = answered or (lambda ref: _answered(ref, who))
        self._who = who
        self._waits_for: Any = None
        self._sent = float("-inf")

    def check(self) -> None:
        """Look for an answer, and send the next call when it is due; LostError if the process is dead or silent."""
        now = self._clock()
        if self._waits_for is None or self._answered(self._waits_for):
            self._waits_for = None
            self._silence.restart()
        elif self._silence.over():
            raise LostError(
                f"{self._who} has given no sign of life for {self._silence.limit_s:g} s "
                "(run.silence_timeout_s), which it gives while it computes, too: it was stopped, or its machine is "
                "overloaded or cut off"
            )
        if self._waits_for is None and now - self._sent >= HEARTBEAT_EVERY_S:
            self._waits_for, self._sent = self._send(), now


def _answered(ref: Any, who: str) -> bool:
    import ray

    ready, _ = ray.wait([ref], timeout=0)
    if ready:
        get_answer(ref, MAX_STEP_S, who)
    return bool(ready)
