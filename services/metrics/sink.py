"""Where measurements go: one protocol, nowhere, or several places at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from services.metrics.catalogue import Value, check


class MetricsSink(Protocol):
    """Takes one update's measurements, keyed as ``services.metrics.catalogue`` says."""

    def record(self, update: int, values: Mapping[str, Value]) -> None:
        """Take the measurements of an update (0: before the first).

        Raises:
            MetricsError: a measurement that the catalogue does not describe.
        """
        ...

    def close(self) -> None:
        """Finish writing and free what is held; a second call does nothing."""
        ...


class NullSink:
    """Checks measurements and forgets them."""

    def record(self, update: int, values: Mapping[str, Value]) -> None:
        """Check only."""
        del update
        check(values)

    def close(self) -> None:
        """Nothing to free."""


class FanOut:
    """Hands every measurement to several sinks, in order; one that would be refused reaches none."""

    def __init__(self, *sinks: MetricsSink) -> None:
        self._sinks = sinks

    def record(self, update: int, values: Mapping[str, Value]) -> None:
        """Check once, then record everywhere."""
        check(values)
        for sink in self._sinks:
            sink.record(update, values)

    def close(self) -> None:
        """Close all, the last first."""
        for sink in reversed(self._sinks):
            sink.close()
