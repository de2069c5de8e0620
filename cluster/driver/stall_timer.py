"""How long something was waited for by somebody who was there to see it."""

from __future__ import annotations

import time
from collections.abc import Callable

ATTENTION_S = 5.0  # the most waiting that two looks show, however far apart they are


class StallTimer:
    """A limit on waiting, counted while somebody looks: a process that was stopped itself did not wait.

    So a run whose driver was put to sleep for hours goes on when it wakes, instead of giving up at its first look.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin to wait.

        Args:
            limit_s: seconds.
            clock: seconds.
        """
        self.limit_s = limit_s
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """What was waited for has come, or was not waited for meanwhile."""
        self._looked, self._waited_s = self._clock(), 0.0

    def over(self) -> bool:
        """Whether the limit is passed; to be asked all the time."""
        now = self._clock()
        self._waited_s += min(now - self._looked, ATTENTION_S)
        self._looked = now
        return self._waited_s > self.limit_s
