"""A run folder as plain data for its report. Only ``summary.json`` must exist; other missing files give empty data.

A number that is not finite counts as missing: the page could not hold it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from grpo_core.errors import one_line
from grpo_core.files import parse_json, parse_toml, read_bytes, read_text
from grpo_core.types import Measure, RoleMeasures
from services.reports.page import ReportError
from services.reports.run_report.schema import LARGEST_UPDATE, Audit, Configuration, Line, Lineup, summary_of

CONTROL = "control"  # label of the policy that went on imitating while the run trained
MUTED = "muted"  # label of the trained policy with its letters withheld
Points = tuple[list[float], list[float]]  # x (updates) and y


@dataclass(frozen=True, slots=True)
class RunData:
    """The files of a run."""

    folder: Path
    measured: RoleMeasures
    summary: Mapping[str, Any]
    config: Mapping[str, Any]
    lines: tuple[Mapping[str, Any], ...]  # metrics.jsonl, in order of updates
    audits: tuple[Audit, ...]  # one an update, in order of versions
    lineups: tuple[Lineup, ...] = ()  # the newest of each block, in order of blocks

    def series(self, key: str) -> Points:
        """Return a measurement over the updates that have it; a list counts by its mean."""
        points = [(line["update"], _number(line["metrics"].get(key))) for line in self.lines]
        return [x for x, y in points if y is not None], [y for _, y in points if y is not None]

    def of_role(self, name: str, role: str) -> str:
        """The key of a role's measurement."""
        return f"{name}{{{self.measured.role_name}={role}}}"

    def role_mean(self, name: str, weight: str = "") -> Points:
        """Return the mean of a measurement over the roles, by update; updates without all of them are left out.

        With the name of another measurement as ``weight``, roles count by it, and those of weight 0 not at all; then
        updates are left out that lack a weight, and those whose weights are all 0.
        """
        if weight:
            return self._weighted_mean(name, weight)
        measured = {key for line in self.lines for key in line["metrics"]}  # not of roles that were only evaluated
        keys = [key for role in self.roles if (key := self.of_role(name, role)) in measured]
        points = [(line["update"], [_number(line["metrics"].get(key)) for key in keys]) for line in self.lines]
        whole = [(x, [y for y in ys if y is not None]) for x, ys in points]
        kept = [(x, sum(ys) / len(ys)) for x, ys in whole if ys and len(ys) == len(keys)]
        return [x for x, _ in kept], [mean for _, mean in kept]

    def _weighted_mean(self, name: str, weight: str) -> Points:
        measured = {key for line in self.lines for key in line["metrics"]}
        roles = [role for role in self.roles if self.of_role(weight, role) in measured]
        found: Points = [], []
        for line in self.lines:
            weights = [_number(line["metrics"].get(self.of_role(weight, role))) for role in roles]
            values = [_number(line["metrics"].get(self.of_role(name, role))) for role in roles]
            counted = [(value, each) for value, each in zip(values, weights, strict=True) if value is not None and each]
            if None not in weights and counted:
                found[0].append(line["update"])
                found[1].append(fmean(*zip(*counted, strict=True)))
        return found

    def label_values(self, name: str) -> list[str]:
        """Return the sorted values of a metric's only label: ``country`` for ``entente_groups{level=country}``."""
        pattern = re.compile(re.escape(name) + r"\{[^=]+=([^,}]*)\}")
        found = {match[1] for line in self.lines for key in line["metrics"] if (match := pattern.fullmatch(key))}
        return sorted(found)  # as they are in keys

    def rate(self, counter: str, per_seconds: float = 1.0) -> Points:
        """Return a counter's rate between consecutive updates by the run's clock, without downtime."""
        clock = "entente_run_seconds_total"
        both = [
            (line["update"], *(_number(line["metrics"].get(key)) for key in (clock, counter))) for line in self.lines
        ]
        points = [(x, seconds, count) for x, seconds, count in both if seconds is not None and count is not None]
        xs, ys = [], []
        for (_, seconds_before, count_before), (x, seconds, count) in pairwise(points):
            if seconds > seconds_before:
                xs.append(x)
                ys.append((count - count_before) / (seconds - seconds_before) * per_seconds)
        return xs, ys

    @property
    def course(self) -> Sequence[Mapping[str, Any]]:
        """The evaluations of the run's own policy, without the control that only imitated and without muted ones."""
        return [row for row in self.evaluations if row.get("label") not in (CONTROL, MUTED)]

    @property
    def evaluations(self) -> Sequence[Mapping[str, Any]]:
        """The summary's evaluations with games, sorted by checkpoint."""
        rows = [row for row in self.summary.get("evaluations", ()) if row.get(self.measured.main.row_name) is not None]
        return sorted(rows, key=checkpoint_update)

    @property
    def batch_metric(self) -> str:
        """The metric of an update's episodes by role."""
        return f"entente_batch_{self.measured.main.name}"

    @property
    def roles(self) -> list[str]:
        """The roles with a measurement or an evaluation, in the world's order; then others."""
        evaluated = {role for row in self.evaluations for role in row.get(self.measured.by_role, {})}
        found = evaluated.union(self.label_values(self.batch_metric))
        known = [role for role in self.measured.roles if role in found]
        return known + sorted(found.difference(known))


def load_run(run_dir: Path, measured: RoleMeasures, *, finished: bool = True) -> RunData:
    """Read a run folder, without a torn last line of metrics; raises ``ReportError`` if it is damaged or none.

    ``measured`` says what its world measures. Without ``finished`` there need not be a summary yet.
    """
    summary_path = run_dir / "summary.json"
    if finished and not summary_path.exists():
        raise ReportError(f"{run_dir} holds no finished run: summary.json is missing")
    config_path = run_dir / "config.toml"
    config = _typed(config_path, Configuration) if config_path.exists() else {}
    summary = _typed(summary_path, summary_of(measured)) if summary_path.exists() else {}
    audits = tuple(map(read_audit, sorted((run_dir / "audit").glob("*.json"))))
    lines, lineups = tuple(_lines(run_dir / "metrics.jsonl")), _lineups(run_dir / "lineups.jsonl")
    return RunData(run_dir, measured, summary, config, lines, audits, lineups)


def checkpoint_update(row: Mapping[str, Any]) -> int:
    """Return a checkpoint's update: the last number in its name, 0 without one."""
    numbers = re.findall(r"\d+", str(row.get("checkpoint", "")))
    return min(int(numbers[-1]), LARGEST_UPDATE) if numbers else 0


def interval(row: Mapping[str, Any], measure: Measure) -> tuple[float, float] | None:
    """Return a measure's 95% interval in an evaluation row, or None; older runs' may reach beyond the range."""
    ends = row.get(f"{measure.row_name}_ci95")
    found = [_number(end) for end in ends] if isinstance(ends, Sequence) and len(ends) == 2 else [None, None]
    low, high = found
    if low is None or high is None:
        return None
    return max(measure.low, low), min(measure.high, high)


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        texts = read_bytes(path, None).splitlines() if path.exists() else []
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror}") from error
    for number, text in enumerate(texts, 1):
        try:
            line = _finite(parse_json(text))
            msgspec.convert(line, Line)
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            if number == len(texts):
                return
            raise ReportError(f"{path} line {number} is damaged: {text[:60]!r}") from error
        yield line


def _lineups(path: Path) -> tuple[Lineup, ...]:
    """Read whom the blocks' games were against; a torn last line is left out, and later lines about a block count."""
    try:
        texts = read_bytes(path, None).splitlines() if path.exists() else []
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror}") from error
    found = {}
    for number, text in enumerate(texts, 1):
        try:
            lineup = msgspec.json.decode(text, type=Lineup)
        except (ValueError, RecursionError) as error:
            if number == len(texts):
                break
            raise ReportError(f"{path} line {number} is damaged: {text[:60]!r}") from error
        found[lineup.index] = lineup
    return tuple(found[index] for index in sorted(found))


def read_audit(path: Path) -> Audit:
    """Read an audit record. They are many and long, so they are decoded without plain data between."""
    try:
        return msgspec.json.decode(read_bytes(path), type=Audit)
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path} is damaged: {one_line(error, 200)}") from error


def _typed(path: Path, kind: Any) -> Any:
    """Read a document as plain data, and compare its parts with their types."""
    try:
        document = _finite(parse_toml(read_text(path)) if path.suffix == ".toml" else parse_json(read_bytes(path)))
        msgspec.convert(document, kind)
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path} is damaged: {one_line(error, 200)}") from error
    return document


def _finite(document: Any) -> Any:
    """Return a document with None for numbers that are not finite, which Python's JSON reader accepts."""
    if isinstance(document, dict):
        return {name: _finite(value) for name, value in document.items()}
    if isinstance(document, list):
        return [_finite(value) for value in document]
    return None if isinstance(document, float) and not math.isfinite(document) else document


def _number(value: Any) -> float | None:
    """Return a measurement as one number, a list as its mean; None if there is none."""
    values = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, int | float)]
    return sum(values) / len(values) if values else None
