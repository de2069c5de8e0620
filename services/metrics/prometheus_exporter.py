"""Measurements for Prometheus, served at ``/metrics``, by default on loopback."""

from __future__ import annotations

import bisect
import errno
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from services.metrics.catalogue import Metric, MetricsError, Value, check, known_metrics, parse_key

LOOPBACK = "127.0.0.1"
RUN = "run"  # the label that every sample of a named run has
_CLOSE_TIMEOUT_S = 5.0


@dataclass(slots=True)
class _Histogram:
    counts: list[int]  # per bucket, the open last one included; not cumulative
    total: float = 0.0


@dataclass(slots=True, eq=False)
class LatestValues(Collector):
    """The values recorded last, as Prometheus families; counters are totals of the run and never fall."""

    run: str = ""  # its name, a label of every sample; "": no such label
    numbers: dict[Metric, dict[tuple[str, ...], float]] = field(default_factory=dict)
    histograms: dict[Metric, dict[tuple[str, ...], _Histogram]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def update(self, values: Mapping[str, Value]) -> None:
        """Replace values and add a histogram's observations."""
        parsed = [(*parse_key(text), value) for text, value in values.items()]
        with self.lock:
            recorded = {metric for metric, _, _ in parsed}
            names = {metric.name for metric in recorded}
            for metric in [*self.numbers]:
                if metric.beside in names or (metric.whole and metric in recorded):
                    del self.numbers[metric]
            for metric, labels, value in parsed:
                if isinstance(value, Sequence):
                    of_metric = self.histograms.setdefault(metric, {})
                    histogram = of_metric.setdefault(labels, _Histogram([0] * (len(metric.buckets) + 1)))
                    for observation in value:
                        histogram.counts[bisect.bisect_left(metric.buckets, observation)] += 1
                        histogram.total += observation
                else:
                    known = self.numbers.setdefault(metric, {})
                    # Prometheus takes a counter that falls for a new one, and would add its whole value.
                    least = known.get(labels, 0.0) if metric.kind == "counter" else -math.inf
                    known[labels] = max(float(value), least)

    def collect(self) -> Iterator[Family]:
        """Return the families that have samples, for ``prometheus_client``."""
        with self.lock:
            families = [self._family(metric) for metric in known_metrics()]
        return iter([family for family in families if family.samples])

    def _family(self, metric: Metric) -> Family:
        names = (RUN, *metric.labels) if self.run else metric.labels
        run = (self.run,) if self.run else ()
        if metric.kind == "histogram":
            family = HistogramMetricFamily(metric.name, metric.help, labels=names)
            for labels, histogram in self.histograms.get(metric, {}).items():
                bounds = [*map(str, metric.buckets), "+Inf"]
                cumulative = zip(bounds, accumulate(histogram.counts), strict=True)
                family.add_metric((*run, *labels), list(cumulative), histogram.total)
            return family
        kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        plain = kind(metric.name, metric.help, labels=names)
        for labels, value in self.numbers.get(metric, {}).items():
            plain.add_metric((*run, *labels), value)
        return plain


class Exporter:
    """A metrics sink that Prometheus scrapes at ``http://<host>:<port>/metrics``."""

    def __init__(self, port: int = 0, host: str = LOOPBACK, run: str = "") -> None:
        """Serve at once; port 0 takes any free one, which ``.port`` then holds.

        Clients that reach ``host`` can only read all values. Every sample has the label ``run``, if given. Raises
        ``MetricsError`` if the port is taken or not allowed, or the host is no address of this machine.
        """
        self._values = LatestValues(run)
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self._values)
        self.host = host
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=self.registry)
        except OSError as error:
            taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
            advice = "metrics.port to 0 for a free one" if taken else "metrics.host to an address of this machine"
            message = f"metrics port {port} on {host} cannot be used ({error.strerror}); set {advice}"
            raise MetricsError(message) from error
        self.port: int = self._server.server_port

    @property
    def url(self) -> str:
        """The address to scrape."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/metrics"

    def record(self, update: int, values: Mapping[str, Value]) -> None:
        """Serve these values from now on; the others stay as they are."""
        del update  # entente_updates_total carries it
        check(values)
        self._values.update(values)

    def close(self) -> None:
        """Stop serving and free the port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(_CLOSE_TIMEOUT_S)
        self._server.server_close()
