"""A run folder as plain data for its report. Only ``summary.json`` must exist; other missing files give empty data."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from services.reports.page import ReportError

Points = tuple[list[float], list[float]]  # x (updates) and y


@dataclass(frozen=True, slots=True)
class RunData:
    """The files of a run."""

    folder: Path
    summary: Mapping[str, Any]
    config: Mapping[str, Any]
    lines: tuple[Mapping[str, Any], ...]  # metrics.jsonl, in order of updates
    audits: tuple[Mapping[str, Any], ...]  # one an update, in order of versions

    def series(self, key: str) -> Points:
        """Return a measurement over the updates that have it; a list counts by its mean."""
        points = [(line["update"], line["metrics"][key]) for line in self.lines if key in line["metrics"]]
        kept = [(x, _number(y)) for x, y in points if y != []]
        return [x for x, _ in kept], [y for _, y in kept]

    def country_mean(self, name: str) -> Points:
        """Return the mean of a measurement over the countries, by update; updates without all of them are left out."""
        keys = [f"{name}{{country={country}}}" for country in self.countries]
        lines = [line for line in self.lines if keys and all(key in line["metrics"] for key in keys)]
        means = [sum(_number(line["metrics"][key]) for key in keys) / len(keys) for line in lines]
        return [line["update"] for line in lines], means

    def label_values(self, name: str) -> list[str]:
        """Return the sorted values of a metric's only label: ``country`` for ``entente_groups{level=country}``."""
        pattern = re.compile(re.escape(name) + r"\{[^=]+=([^,}]*)\}")
        found = {match[1] for line in self.lines for key in line["metrics"] if (match := pattern.fullmatch(key))}
        return sorted(found)

    def rate(self, counter: str, per_seconds: float = 1.0) -> Points:
        """Return a counter's rate between consecutive updates by the run's clock, without downtime."""
        clock = "entente_run_seconds_total"
        lines = [line for line in self.lines if counter in line["metrics"] and clock in line["metrics"]]
        xs, ys = [], []
        for before, after in pairwise(lines):
            seconds = after["metrics"][clock] - before["metrics"][clock]
            if seconds > 0:
                xs.append(after["update"])
                ys.append((after["metrics"][counter] - before["metrics"][counter]) / seconds * per_seconds)
        return xs, ys

    @property
    def evaluations(self) -> Sequence[Mapping[str, Any]]:
        """The summary's evaluations with games, sorted by checkpoint."""
        rows = [row for row in self.summary.get("evaluations", ()) if row.get("mean_centers") is not None]
        return sorted(rows, key=checkpoint_update)

    @property
    def countries(self) -> list[str]:
        """The countries (or other roles) with a measurement or an evaluation."""
        evaluated = {country for row in self.evaluations for country in row.get("by_country", {})}
        return sorted(evaluated.union(self.label_values("entente_batch_centers")))


def load_run(run_dir: Path) -> RunData:
    """Read a run folder, without a torn last line of metrics; raises ``ReportError`` if it is damaged or none."""
    summary_path = run_dir / "summary.json"
    if not summary_path.exists():
        raise ReportError(f"{run_dir} holds no finished run: summary.json is missing")
    config_path = run_dir / "config.toml"
    try:
        config = tomllib.loads(config_path.read_text(encoding="utf-8")) if config_path.exists() else {}
    except tomllib.TOMLDecodeError as error:
        raise ReportError(f"{config_path} is damaged: {error}") from error
    summary = _json(summary_path)
    if not isinstance(summary, dict):
        raise ReportError(f"{summary_path} is damaged: not an object")
    audits = tuple(_json(path) for path in sorted((run_dir / "audit").glob("*.json")))
    return RunData(run_dir, summary, config, tuple(_lines(run_dir / "metrics.jsonl")), audits)


def checkpoint_update(row: Mapping[str, Any]) -> int:
    """Return a checkpoint's update: the last number in its name, 0 without one."""
    numbers = re.findall(r"\d+", str(row.get("checkpoint", "")))
    return int(numbers[-1]) if numbers else 0


def interval(row: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    """Return the 95% interval ``<name>_ci95`` of an evaluation row, or None."""
    ends = row.get(f"{name}_ci95")
    return (float(ends[0]), float(ends[1])) if isinstance(ends, Sequence) and len(ends) == 2 else None


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    texts = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for number, text in enumerate(texts, 1):
        try:
            line = json.loads(text)
            yield {"update": int(line["update"]), "metrics": dict(line["metrics"])}
        except (ValueError, KeyError, TypeError) as error:
            if number == len(texts):
                return
            raise ReportError(f"{path} line {number} is damaged: {text[:60]!r}") from error


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ReportError(f"{path} is damaged: {error}") from error


def _number(value: Any) -> float:
    return sum(value) / len(value) if isinstance(value, list) else float(value)
