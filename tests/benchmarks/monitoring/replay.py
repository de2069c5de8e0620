"""A recorded run as Prometheus would have scraped it: metrics.jsonl through the real exporter, into its storage."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from cluster.configs.loader import load_config
from cluster.driver.metrics_recorder import EVALUATING, PROGRESS_TIME
from cluster.runs.counters import limits
from services.metrics.jsonl import read_metrics
from services.metrics.prometheus_exporter import Exporter
from tests.system.support.monitoring.prometheus_server import program

SCRAPE_S = 15.0
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def scrapes(metrics: Path, run: str, every_s: float = SCRAPE_S) -> Iterator[str]:
    """OpenMetrics lines with their times, one scrape after the other, from the first line of the file to its last."""
    lines = read_metrics(metrics)
    config_file = metrics.with_name("config.toml")
    exporter = Exporter(0, run=run)
    try:
        if config_file.exists():
            config = load_config(config_file)
            exporter.record(0, {**limits(config.learner.updates, config.rollout), EVALUATING: 0.0})
        time_s, at = lines[0].time, 0
        while at < len(lines):
            while at < len(lines) and lines[at].time <= time_s:
                line = lines[at]
                exporter.record(line.update, {**line.metrics, PROGRESS_TIME: line.time})
                at += 1
            yield from _scraped(exporter, time_s)
            time_s += every_s
        yield from _scraped(exporter, time_s)
        yield "# EOF"
    finally:
        exporter.close()


def fill_storage(metrics: Path, run: str, storage: Path, every_s: float = SCRAPE_S) -> None:
    """Write a recorded run into the storage of a Prometheus that is not running."""
    text = storage.with_suffix(".openmetrics")
    text.write_text("\n".join(scrapes(metrics, run, every_s)) + "\n")
    command = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(text), str(storage)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)


def _scraped(exporter: Exporter, time_s: float) -> Iterator[str]:
    for family in exporter.registry.collect():
        for sample in family.samples:
            labels = ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in sample.labels.items())
            yield f"{sample.name}{{{labels}}} {sample.value!r} {time_s:.3f}"
