"""Places in the cluster for further rollout actors that were asked for and are not there yet."""

from __future__ import annotations

import time
from collections.abc import Callable

from cluster.runtime.ended_processes import Ref
from cluster.runtime.placement import FurtherPlace


class PendingPlacements:
    """Requested places that a cluster's autoscaler may have to start nodes for, each with a time limit."""

    def __init__(self, request: Callable[[], FurtherPlace], timeout_s: float) -> None:
        """Request nothing yet; ``request`` asks the cluster for one place, due within ``timeout_s``."""
        self._request = request
        self._timeout_s = timeout_s
        self._pending: dict[Ref, tuple[FurtherPlace, float]] = {}

    def __len__(self) -> int:
        """Number of places that are not there yet."""
        return len(self._pending)

    @property
    def refs(self) -> list[Ref]:
        """References that resolve when their places are there."""
        return list(self._pending)

    def ask(self, count: int) -> None:
        """Request so many more."""
        for _ in range(count):
            place = self._request()
            self._pending[place.ready()] = place, time.monotonic() + self._timeout_s

    def cancel(self, count: int) -> int:
        """Cancel up to so many requests, the latest first; returns how many."""
        newest = list(self._pending)[len(self._pending) - min(count, len(self._pending)) :]
        for ref in newest:
            self._pending.pop(ref)[0].give_back()
        return len(newest)

    def arrived(self, ref: Ref) -> FurtherPlace | None:
        """Hand over the place of a resolved reference; None if the reference belongs to no request."""
        place, _ = self._pending.pop(ref, (None, 0.0))
        return place

    def give_up_overdue(self) -> int:
        """Cancel requests that are past their time limit; returns how many."""
        late = [ref for ref, (_, deadline) in self._pending.items() if deadline < time.monotonic()]
        for ref in late:
            self._pending.pop(ref)[0].give_back()
        return len(late)
