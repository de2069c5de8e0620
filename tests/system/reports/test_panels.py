"""Every panel of every dashboard shows data of a real source, asked of a real Prometheus (``panel_sources``)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_AUTH_MODE", "token")

import ray

from cluster.runtime.ray_calls import shut_down_ray
from services.environments.diplomacy.position import POWERS
from services.metrics.dashboards.panels import Query
from services.metrics.prometheus_exporter import Exporter
from tests.paths import ROOT
from tests.system.support.monitoring.panel_feeds import (
    learn,
    play_a_run,
    play_with_press,
    rate,
    server_with_a_limit,
    supervise,
)
from tests.system.support.monitoring.panel_sources import (
    LEARNED,
    NEGOTIATED,
    PLAYED,
    RATED,
    RAY,
    SOURCES,
    SUPERVISED,
    VLLM,
    is_counter,
    metrics_in,
    shown_panels,
    source_of,
)
from tests.system.support.monitoring.prometheus_server import NO_PROMETHEUS, Prometheus, installed, serving
from tests.system.support.ray_head import RayHead, free_ports
from tests.system.support.training_process import ENTENTE

pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]

LIMIT_S = 900.0
WINDOW = "1m"
WITH_A_GPU = ROOT / "tests" / "system" / "support" / "monitoring" / "ray_with_a_gpu"


@dataclass
class Watch:
    """All that Prometheus has seen."""

    server: Prometheus
    start: float  # unix seconds

    def series(self, expr: str, run: str) -> list[list[float]]:
        """The values of each series of an expression, with its variables replaced."""
        for name, value in (("run", run), ("window", WINDOW), ("country", ".+"), ("against", ".+")):
            expr = expr.replace(f"${name}", value)
        found = self.server.over(expr, self.start, time.time())
        return [[float(value) for _, value in series["values"] if value != "NaN"] for series in found]

    def wait_for(self, expr: str, run: str = "") -> None:
        """Until an expression has a value other than 0."""
        deadline = time.monotonic() + LIMIT_S
        while not any(any(values) for values in self.series(expr, run)):
            assert time.monotonic() < deadline, f"Prometheus has no {expr} of {run!r}"
            time.sleep(0.2)


@contextmanager
def prometheus_of(folder: Path, targets: list[int], discovery: Path) -> Iterator[Watch]:
    """A Prometheus configured by ``entente monitoring``, which scrapes several times a second."""
    words = [word for port in targets for word in ("--target", f"127.0.0.1:{port}")]
    subprocess.run(
        [*ENTENTE, "monitoring", "--out", str(folder / "monitoring"), *words, "--ray-file", str(discovery),
         "--interval", "1"],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    config = folder / "monitoring" / "prometheus" / "prometheus.yml"
    config.write_text(config.read_text().replace("scrape_interval: 1s", "scrape_interval: 200ms"))
    with serving(config, folder / "tsdb") as server:
        yield Watch(server, time.time())


def wait_for_agent(discovery: Path) -> None:
    """Until Ray lists its agent: Prometheus may notice a change of the list only minutes later."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        targets = json.loads(discovery.read_text())[0]["targets"] if discovery.exists() else []
        for target in targets:
            with suppress(OSError), urllib.request.urlopen(f"http://{target}/metrics", timeout=10) as answer:
                if b"ray_node_gram_used{" in answer.read():
                    return
        assert time.monotonic() < deadline, f"Ray's agent shows no GPU: {targets}"
        time.sleep(0.5)


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    """A Prometheus that has watched every source, one after the other."""
    if not installed("prometheus"):
        pytest.skip(NO_PROMETHEUS)
    folder = tmp_path_factory.mktemp("panels")
    port, press_port = free_ports(2)
    with ExitStack() as stack:
        exporters = {run: Exporter(0, run=run) for run in (LEARNED, SUPERVISED, RATED)}
        for exporter in exporters.values():
            stack.callback(exporter.close)
        with RayHead({"PYTHONPATH": f"{WITH_A_GPU}:{ROOT}"}) as head:
            discovery = head.folder / "prom_metrics_service_discovery.json"
            wait_for_agent(discovery)
            ports = [port, press_port, *(exporter.port for exporter in exporters.values())]
            watch = stack.enter_context(prometheus_of(folder, ports, discovery))
            for name, source in SOURCES.items():
                if source.shown_by == RAY:
                    watch.wait_for(name)
        server = stack.enter_context(server_with_a_limit(folder / "redis"))

        def seen(run: str) -> Callable[..., None]:
            return lambda expr='entente_updates_planned{run="$run"}': watch.wait_for(expr, run)

        learn(folder / LEARNED, server, exporters[LEARNED], seen(LEARNED))
        rate(folder / RATED, exporters[RATED], seen(RATED))
        play_a_run(folder / PLAYED, server, port)
        play_with_press(folder / NEGOTIATED, press_port)
        ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False,
                 object_store_memory=100 << 20)  # fmt: skip
        try:
            supervise(folder / SUPERVISED, exporters[SUPERVISED], seen(SUPERVISED))
        finally:
            shut_down_ray()
        watch.wait_for('ALERTS{alertstate="firing", run="$run"}', SUPERVISED)
        yield watch


def test_every_metric_of_a_panel_comes_from_its_source(watch: Watch) -> None:
    absent = []
    for name, source in SOURCES.items():
        if source.shown_by == VLLM:  # tests/system/vllm
            continue
        run = "" if source.shown_by == RAY else '{run="$run"}'
        suffix = "_count" if name == "entente_weight_swap_seconds" else ""
        found = watch.series(f"{name}{suffix}{run}", source.shown_by)
        # Counters are there from the beginning, so they must have moved.
        if not found or (is_counter(name) and not any(max(values) > 0 for values in found)):
            absent.append((name, source.shown_by))
    assert not absent
    # What a source does not feed is not there: the check above can fail.
    assert not watch.series('entente_curriculum_level{run="$run"}', RATED)
    assert not any(map(max, watch.series('entente_poison_episodes_total{run="$run"}', PLAYED)))


def queries() -> list[tuple[str, Query]]:
    """Every query with its panel, but those of vLLM's counters (tests/system/vllm)."""
    return [
        (f"{board}: {panel.title}", query)
        for board, panel in shown_panels()
        for query in panel.queries
        if source_of(query) != VLLM
    ]


def test_every_query_of_every_panel_has_data_of_its_source(watch: Watch) -> None:
    empty = [(title, query.expr) for title, query in queries() if not watch.series(query.expr, source_of(query))]
    assert not empty
    # Those that show changes of counters show the changes.
    still = [
        (title, query.expr)
        for title, query in queries()
        if re.search(r"rate\(|increase\(", query.expr)
        and not any(max(values) > 0 for values in watch.series(query.expr, source_of(query)))
    ]
    assert not still
    alerts = [query for _, query in queries() if "ALERTS" in metrics_in(query)]
    assert all(any(max(values) > 0 for values in watch.series(query.expr, SUPERVISED)) for query in alerts)


def test_every_country_has_its_own_series_and_no_alert_fires_for_a_run_that_is_over(watch: Watch) -> None:
    for title, query in queries():
        if title.split(": ")[1] in ("Solos", "Centres", "Survival"):
            assert len(watch.series(query.expr, PLAYED)) == len(POWERS), title
    assert not watch.series('ALERTS{alertname="EntenteRunGone",alertstate="firing",run="$run"}', PLAYED)
