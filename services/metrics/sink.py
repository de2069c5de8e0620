"""The protocol of a metrics sink, and one that records in several others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from services.metrics.catalogue import Value, check


class MetricsSink(Protocol):
    """Records each update's measurements, with keys of ``services.metrics.catalogue``."""

    def record(self, update: int, values: Mapping[str, Value]) -> None:
        """Record the measurements of an update (0: before the first); raises ``MetricsError`` as ``check`` does."""

    def close(self) -> None:
        """Finish writing and free resources; a second call does nothing."""


class FanOut:
    """Records in several sinks, in order; an invalid measurement reaches none."""

    def __init__(self, *sinks: MetricsSink) -> None:
        self._sinks = sinks

    def record(self, update: int, values: Mapping[str, Value]) -> None:
        """See ``MetricsSink.record``."""
        check(values)
        for sink in self._sinks:
            sink.record(update, values)

    def close(self) -> None:
        """Close all, the last first."""
        for sink in reversed(self._sinks):
            sink.close()
