"""A real run watched by a real Prometheus, configured by ``entente monitoring``."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, start_http_server

from services.metrics.catalogue import CATALOGUE, Value, key
from services.metrics.dashboards.panels import Query
from services.metrics.prometheus_exporter import Exporter
from tests.system.support.prometheus_server import Prometheus, serving
from tests.system.support.training_process import ENTENTE

FED = "fed"  # the run with metrics that smoke.toml's lacks
# Metrics that need other configurations, and these.
ONLY_ELSEWHERE = {
    "entente_remote_": "opponents.remotes: an endpoint with a chat model",
    "entente_curriculum_level": "opponents.matchmaking = curriculum",
    "entente_reference_kl": "learner.beta > 0",
    "entente_importance_": "learner.decoupled, or an off-policy mask",
    "entente_gradient_": "grouping.gradient_surgery",
    "entente_alignment_loss": "alignment.weight > 0",
    "entente_group_weight": "grouping.group_weights",
    "entente_buffer_server_bytes_limit": "a replay server with a maxmemory; the embedded one has none",
    "entente_evaluation_centers_low": "evaluation.games_per_country > 1",
    "entente_evaluation_centers_high": "the same",
    "ALERTS": "something wrong",
}
RAY = ("gpus_utilization", "gram_used", "gram_available", "cpu_count", "cpu_utilization", "mem_used", "mem_total",
       "disk_utilization_percentage")  # fmt: skip
RESTARTS = "entente_worker_restarts_total"


@dataclass
class Watch:
    """The data that Prometheus has of the run so far."""

    server: Prometheus
    start: float  # unix seconds
    elsewhere: Exporter

    def series(self, query: Query, run: str) -> int:
        """The number of series with data of a panel's query, over the whole run."""
        expr = query.expr.replace("$run", run if needs_no_other(query) else FED).replace("$window", "1m")
        for repeated in ("$country", "$against"):
            expr = expr.replace(repeated, ".+")
        return len(self.server.over(expr, self.start, time.time()))

    def raise_an_alert(self) -> None:
        """Raise an alert of the other run."""
        self.elsewhere.record(1, {RESTARTS: 9.0})


def needs_no_other(query: Query) -> bool:
    """Whether smoke.toml's run has all metrics of a query."""
    return not any(name in query.expr for name in ONLY_ELSEWHERE)


@contextmanager
def watching(folder: Path, port: int) -> Iterator[Watch]:
    """Prometheus that scrapes a run's exporter at ``port`` (now or later), another run's, and a substitute of Ray's."""
    elsewhere = Exporter(0, run=FED)
    ray_server, ray_thread = start_http_server(0, addr="127.0.0.1", registry=_ray())
    try:
        elsewhere.record(0, _other_values())
        discovery = folder / "prom_metrics_service_discovery.json"
        target = f"127.0.0.1:{ray_server.server_port}"
        discovery.write_text(json.dumps([{"labels": {"job": "ray"}, "targets": [target]}]))  # as Ray writes it
        subprocess.run(
            [*ENTENTE, "monitoring", "--out", str(folder / "monitoring"), "--target", f"127.0.0.1:{port}",
             "--target", f"127.0.0.1:{elsewhere.port}", "--ray-file", str(discovery), "--interval", "1"],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
        config = folder / "monitoring" / "prometheus" / "prometheus.yml"
        # The four updates of smoke.toml take a second or two.
        config.write_text(config.read_text().replace("scrape_interval: 1s", "scrape_interval: 200ms"))
        with serving(config, folder / "tsdb") as server:
            yield Watch(server, time.time(), elsewhere)
    finally:
        elsewhere.close()
        ray_server.shutdown()
        ray_thread.join(10)
        ray_server.server_close()


def _other_values() -> Mapping[str, Value]:
    """The other run's values, with all metrics of ``ONLY_ELSEWHERE``."""
    values: dict[str, Value] = {RESTARTS: 0.0, "entente_buffer_server_bytes": 5.0, "entente_kl": 0.01}
    for metric in CATALOGUE.values():
        if any(metric.name.startswith(name) for name in ONLY_ELSEWHERE):
            labels = dict.fromkeys(metric.labels, "FRANCE")
            values[key(metric.name, **labels)] = 10.0
    return values


def _ray() -> CollectorRegistry:
    registry = CollectorRegistry()
    for name in RAY:
        labels = ["GpuIndex"] if name[0] == "g" else []
        gauge = Gauge(f"ray_node_{name}", name, labels, registry=registry)
        (gauge.labels("0") if labels else gauge).set(20)
    return registry
