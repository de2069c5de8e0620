"""Rooms in the cluster that were asked for and are not there yet: each is for one more rollout actor."""

from __future__ import annotations

import time
from collections.abc import Callable

from cluster.driver.worker import Ref
from cluster.runtime.placement import FurtherPlace


class PendingPlacements:
    """Waits for rooms, which a cluster's autoscaler may have to bring nodes for; none is waited for without end."""

    def __init__(self, ask: Callable[[], FurtherPlace], timeout_s: float) -> None:
        """Ask for nothing yet.

        Args:
            ask: asks the cluster for one room.
            timeout_s: for it to be there.
        """
        self._ask = ask
        self._timeout_s = timeout_s
        self._coming: dict[Ref, tuple[FurtherPlace, float]] = {}

    def __len__(self) -> int:
        """Rooms asked for that are not there."""
        return len(self._coming)

    @property
    def refs(self) -> list[Ref]:
        """What to wait for."""
        return list(self._coming)

    def ask(self, count: int) -> None:
        """Ask for so many more."""
        for _ in range(count):
            place = self._ask()
            self._coming[place.ready()] = place, time.monotonic() + self._timeout_s

    def cancel(self, count: int) -> int:
        """Ask for so many fewer, the latest first; how many that are, for some may have come."""
        newest = list(self._coming)[len(self._coming) - min(count, len(self._coming)) :]
        for ref in newest:
            self._coming.pop(ref)[0].give_back()
        return len(newest)

    def arrived(self, ref: Ref) -> FurtherPlace | None:
        """The room that this reference told of, now the caller's; None if nobody waits for it any more."""
        place, _ = self._coming.pop(ref, (None, 0.0))
        return place

    def overdue(self) -> int:
        """Give up what did not come in time; how many that were."""
        late = [ref for ref, (_, deadline) in self._coming.items() if deadline < time.monotonic()]
        for ref in late:
            self._coming.pop(ref)[0].give_back()
        return len(late)
