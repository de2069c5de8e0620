"""Boards as plain data: what each panel asks of Prometheus, built from the catalogue; ``grafana`` draws them.

In an expression ``$run`` is the run's label, ``$country`` and ``$against`` repeat a row or panel, ``$window`` is the
time that rates are taken over. Series of one run are merged over exporters, so that a run that was resumed elsewhere
stays one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from services.metrics.catalogue import CATALOGUE, Metric

Kind = Literal["lines", "stat", "table", "matrix"]
Color = Literal["green", "yellow", "orange", "red", "text"]

GREY = "#6e7280"
PERCENT = "percentunit"
PLAIN = "short"
_UNITS = {"seconds": "s", "bytes": "bytes"}  # of the catalogue -> of Grafana


@dataclass(frozen=True, slots=True)
class Query:
    """One expression and the name of its series; ``{{label}}`` stands for a label's value."""

    expr: str
    legend: str = ""
    unit: str = ""  # "": the panel's
    edge: Literal["", "low", "high"] = ""  # of a band, which is filled between the two
    faint: bool = False  # drawn in grey, behind what matters


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; width and height in Grafana's units (a board is 24 wide)."""

    title: str
    queries: tuple[Query, ...]
    text: str = ""  # what it shows, and what to make of it
    kind: Kind = "lines"
    unit: str = PLAIN
    width: int = 6
    height: int = 7
    least: float | None = None  # of the axis
    most: float | None = None
    colors: tuple[tuple[float, Color], ...] = ()  # from which value on; for stats, and as lines across a chart
    words: tuple[tuple[float, str], ...] = ()  # what a value is called
    stacked: bool = False
    by: tuple[str, str] = ("", "")  # of a matrix: the labels of its rows and columns
    repeat: str = ""  # once for every value of this variable


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading; ``repeat``: once for every value of this variable."""

    title: str
    panels: tuple[Panel, ...]
    repeat: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard."""

    uid: str
    title: str
    text: str
    rows: tuple[Row, ...]

    def panels(self) -> Iterator[Panel]:
        """All, from top to bottom."""
        for row in self.rows:
            yield from row.panels


def series(name: str, **labels: str) -> str:
    """A metric's series of the board's run; ``name`` may end in a histogram's suffix.

    Raises:
        KeyError: the catalogue has no such metric, or the metric no such label.
    """
    metric = metric_of(name)
    for label in labels:
        if label not in metric.labels:
            raise KeyError(f"{name} has no label {label}")
    matchers = "".join(f',{label}{"=~" if value.startswith("$") else "="}"{value}"' for label, value in labels.items())
    return f'{name}{{run="$run"{matchers}}}'


def latest(name: str, **labels: str) -> str:
    """A metric's value now, by its other labels."""
    return f"max{_by(metric_of(name), labels)} ({series(name, **labels)})"


def rate(name: str, **labels: str) -> str:
    """How fast a counter rises, per second."""
    return f"sum{_by(metric_of(name), labels)} (rate({series(name, **labels)}[$window]))"


def risen(name: str, over: str = "$window", **labels: str) -> str:
    """By how much a counter rose."""
    return f"sum{_by(metric_of(name), labels)} (increase({series(name, **labels)}[{over}]))"


def gauge(name: str, title: str = "", **options: Any) -> Panel:
    """The panel of one gauge, named and explained as in the catalogue."""
    return _panel(name, title, latest(name), options)


def counter(name: str, title: str = "", per: float = 1.0, **options: Any) -> Panel:
    """The panel of one counter's rate."""
    expr = rate(name) if per == 1 else f"{per:g} * {rate(name)}"
    return _panel(name, title, expr, {"least": 0.0, "text": f"{metric_of(name).help}, per second.", **options})


def band(name: str, title: str, *more: Query, unit: str = "", most: float | None = None, **labels: str) -> Panel:
    """A gauge between the ends of its interval."""
    return Panel(
        title,
        (
            *edges(latest(f"{name}_low", **labels), latest(f"{name}_high", **labels)),
            *more,
            Query(latest(name, **labels), "mean" if name.endswith("centers") else "share"),
        ),
        text=f"{metric_of(name).help}, with its 95% interval, for which only line-up blocks are independent.",
        unit=unit or unit_of(metric_of(name)),
        least=0.0,
        most=most,
    )


def edges(low: str, high: str, what: str = "of 95%") -> tuple[Query, Query]:
    """The two queries of a band."""
    return Query(low, f"lower end {what}", edge="low"), Query(high, f"upper end {what}", edge="high")


def metric_of(name: str) -> Metric:
    """The catalogue's row; a histogram's series are found by their stem."""
    for suffix in ("_bucket", "_sum", "_count"):
        stem = name.removesuffix(suffix)
        if stem != name and stem in CATALOGUE and CATALOGUE[stem].kind == "histogram":
            return CATALOGUE[stem]
    return CATALOGUE[name]


def unit_of(metric: Metric) -> str:
    """Grafana's name of a metric's unit."""
    return _UNITS.get(metric.unit, PLAIN)


def wide(panel: Panel, width: int, height: int = 0) -> Panel:
    """The same panel in another size."""
    return replace(panel, width=width, height=height or panel.height)


def _panel(name: str, title: str, expr: str, options: dict[str, Any]) -> Panel:
    metric = metric_of(name)
    legend = " ".join(f"{{{{{label}}}}}" for label in metric.labels) or metric.name.removeprefix("entente_")
    plain = Panel(title or metric.help, (Query(expr, legend),), text=f"{metric.help}.", unit=unit_of(metric))
    return replace(plain, **options)


def _by(metric: Metric, chosen: dict[str, str]) -> str:
    """Grouped by the labels that no single value was chosen of."""
    left = [label for label in metric.labels if label not in chosen or chosen[label].startswith("$")]
    return f" by ({', '.join(left)})" if left else ""
