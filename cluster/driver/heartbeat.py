"""Whether the learner's process lives, however long it computes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cluster.driver.stall_timer import ATTENTION_S, StallTimer
from cluster.errors import LostError
from cluster.runtime.ray_calls import answer

GROUP = "pulse"  # Ray's concurrency group of the thread that answers, beside the one that learns
BEAT_EVERY_S = 2.0


class Heartbeat:
    """Asks the learner's process for a sign of life again and again; a thread of its own answers while it computes.

    An update may take half an hour, so that no limit on updates finds a process that was stopped, swapped out or cut
    off within sensible time. What this does not find is a computation that hangs in a process that is alive; the limit
    on updates does.
    """

    def __init__(
        self,
        ask: Callable[[], Any],
        limit_s: float,
        clock: Callable[[], float] = time.monotonic,
        answered: Callable[[Any], bool] | None = None,
    ) -> None:
        """Ask for nothing yet.

        Args:
            ask: asks the process; gives a reference to its answer.
            limit_s: of silence.
            clock: seconds.
            answered: whether a reference has its answer; Ray knows, unless said otherwise. Raises LostError where that
                is the process's end.
        """
        self._ask = ask
        self._silence = StallTimer(limit_s, clock)
        self._clock = clock
        self._answered = answered or _answered
        self._waits_for: Any = None
        self._asked = float("-inf")

    def look(self) -> None:
        """See whether there is an answer, and ask again where it is time to.

        Silence is counted while somebody looks: a driver that was stopped itself, or busy elsewhere, did not listen.

        Raises:
            LostError: the process is dead, or has been silent for too long.
        """
        now = self._clock()
        if self._waits_for is None or self._answered(self._waits_for):
            self._waits_for = None
            self._silence.restart()
        elif self._silence.over():
            raise LostError(
                f"the learner's process has given no sign of life for {self._silence.limit_s:g} s "
                "(run.silence_timeout_s), which it gives while it computes, too: it was stopped, or its machine is "
                "overloaded or cut off"
            )
        if self._waits_for is None and now - self._asked >= BEAT_EVERY_S:
            self._waits_for, self._asked = self._ask(), now


def _answered(ref: Any) -> bool:
    import ray

    ready, _ = ray.wait([ref], timeout=0)
    if ready:
        answer(ref, ATTENTION_S, "the learner")
    return bool(ready)
