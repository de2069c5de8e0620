"""Dashboards as plain data: panels with PromQL queries, built from the catalogue; ``grafana`` renders them.

In an expression ``$run`` is the run's label, ``$against`` and a role's name such as ``$country`` repeat a row or panel,
and rates are taken over ``$window``. Series of one run are merged over exporters, so that a run resumed elsewhere stays
one line. A metric is named, or given itself where it depends on the world.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from grpo_core.types import Measure
from services.metrics.catalogue import CATALOGUE, Metric

Kind = Literal["lines", "stat", "table", "matrix"]
Color = Literal["green", "yellow", "orange", "red", "text"]

GREY = "#6e7280"
PERCENT = "percentunit"
PLAIN = "short"
_UNITS = {"seconds": "s", "bytes": "bytes"}  # catalogue -> Grafana


@dataclass(frozen=True, slots=True)
class Query:
    """One expression and the name of its series; ``{{label}}`` stands for a label's value."""

    expr: str
    legend: str = ""
    unit: str = ""  # "": the panel's
    edge: Literal["", "low", "high"] = ""  # which edge of a band this is; the area between the two is filled
    faint: bool = False  # drawn in grey


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; width and height in Grafana's units (a dashboard is 24 wide)."""

    title: str
    queries: tuple[Query, ...]
    text: str = ""  # its description
    kind: Kind = "lines"
    unit: str = PLAIN
    width: int = 0  # 0: as its row says
    height: int = 7
    minimum: float | None = None  # lowest value of the axis
    maximum: float | None = None
    colors: tuple[tuple[float, Color], ...] = ()  # lower bounds of values; for stats, and as lines across a chart
    value_names: tuple[tuple[float, str], ...] = ()  # texts shown in place of values
    stacked: bool = False
    by: tuple[str, str] = ("", "")  # labels of a matrix's rows and columns
    repeat: str = ""  # once for every value of this variable


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading; ``repeat``: once for every value of this variable."""

    title: str
    panels: tuple[Panel, ...]
    repeat: str = ""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard."""

    uid: str
    title: str
    text: str
    rows: tuple[Row, ...]
    choices: Mapping[str, str] = field(default_factory=dict)  # variable that is a label -> a metric with its values


def series(name: str | Metric, **labels: str) -> str:
    """Return a series of the dashboard's run. Raises ``KeyError`` if the catalogue lacks the metric or the label."""
    metric = metric_of(name)
    name = name if isinstance(name, str) else metric.name
    if foreign := labels.keys() - metric.labels:
        raise KeyError(f"{name} has no label {', '.join(foreign)}")
    matchers = "".join(f',{label}{"=~" if value.startswith("$") else "="}"{value}"' for label, value in labels.items())
    return f'{name}{{run="$run"{matchers}}}'


def row(title: str, *panels: Panel, width: int = 6, repeat: str = "") -> Row:
    """Return a row of panels, of this width where they have none of their own."""
    return Row(title, tuple(replace(panel, width=panel.width or width) for panel in panels), repeat)


def latest(name: str | Metric, **labels: str) -> str:
    """Return a metric's value now, grouped by its other labels."""
    return f"max{_by(metric_of(name), labels)} ({series(name, **labels)})"


def value(name: str, legend: str) -> Query:
    """Return the query of a metric's value."""
    return Query(latest(name), legend)


def rate(name: str | Metric, **labels: str) -> str:
    """Return a counter's increase per second."""
    return f"sum{_by(metric_of(name), labels)} (rate({series(name, **labels)}[$window]))"


def increase(name: str | Metric, over: str = "$window", **labels: str) -> str:
    """Return a counter's increase."""
    return f"sum{_by(metric_of(name), labels)} (increase({series(name, **labels)}[{over}]))"


def pace(name: str | Metric, **labels: str) -> str:
    """Return a counter's increase per second of training; of seconds, the share of the time.

    For counters that are recorded at each update, as the run's seconds are.
    """
    return f"{increase(name, **labels)} / on() group_left() {increase('entente_run_seconds_total')}"


def games_per_hour() -> str:
    """Return the training games that end in an hour of training; they are counted at once, between updates too."""
    evaluating = f"max (avg_over_time({series('entente_evaluating')}[$window]))"
    return f"3600 * {rate('entente_games_total')} / ((1 - ({evaluating} or vector(0))) > 0)"


def chart(title: str, *queries: Query, **options: Any) -> Panel:
    """Draw lines over time, from 0 up."""
    return replace(Panel(title, queries, minimum=0.0), **options)


def share_chart(title: str, *queries: Query, **options: Any) -> Panel:
    """Draw lines over time from 0 to 100 %."""
    return chart(title, *queries, **{"unit": PERCENT, "maximum": 1.0, **options})


def gauge(name: str | Metric, title: str = "", **options: Any) -> Panel:
    """Return the chart of one gauge, with the catalogue's title and text unless others are given."""
    return _panel(name, title, latest(name), options)


def counter(name: str, title: str = "", per: float = 1.0, **options: Any) -> Panel:
    """Return the chart of one counter's rate, per second times ``per``."""
    expr = rate(name) if per == 1 else f"{per:g} * {rate(name)}"
    return _panel(name, title, expr, {"text": f"{metric_of(name).help}, per second.", **options})


def band(
    mean: Metric, ends: tuple[Metric, Metric], measure: Measure, title: str, *more: Query, maximum: float | None = None,
    **labels: str,
) -> Panel:  # fmt: skip
    """Return the chart of a measure with its interval, whose metrics are ``ends``."""
    low, high = edges(*(latest(end, **labels) for end in ends))
    line = Query(latest(mean, **labels), measure.kind)
    text = f"{mean.help}, with its 95% interval, for which only line-up blocks are independent."
    return chart(
        title, low, high, *more, line, text=text, unit=unit_of(measure), maximum=maximum, minimum=floor_of(measure)
    )


def unit_of(measure: Measure) -> str:
    """Return Grafana's unit of a measure."""
    return PERCENT if is_share(measure) else PLAIN


def is_share(measure: Measure) -> bool:
    """Whether a measure is a share, of games or of what was counted in them."""
    return measure.kind == "share" or bool(measure.weight)


def floor_of(measure: Measure) -> float | None:
    """Return the lowest value of a measure's axis: 0, unless values may lie below."""
    return 0.0 if measure.low >= 0 else None


def edges(low: str, high: str, what: str = "of 95%") -> tuple[Query, Query]:
    """Return the two queries of a band's edges."""
    return Query(low, f"lower end {what}", edge="low"), Query(high, f"upper end {what}", edge="high")


def metric_of(name: str | Metric) -> Metric:
    """Return the catalogue's metric of a series; a histogram's series have a suffix."""
    if isinstance(name, Metric):
        return name
    for suffix in ("_bucket", "_sum", "_count"):
        stem = name.removesuffix(suffix)
        if stem != name and stem in CATALOGUE and CATALOGUE[stem].kind == "histogram":
            return CATALOGUE[stem]
    return CATALOGUE[name]


def _panel(name: str | Metric, title: str, expr: str, options: dict[str, Any]) -> Panel:
    metric = metric_of(name)
    legend = " ".join(f"{{{{{label}}}}}" for label in metric.labels) or metric.name.removeprefix("entente_")
    described = {"text": f"{metric.help}.", "unit": _UNITS.get(metric.unit, PLAIN), **options}
    return chart(title or metric.help, Query(expr, legend), **described)


def _by(metric: Metric, chosen: dict[str, str]) -> str:
    """Return the grouping by labels that have no single chosen value."""
    left = [label for label in metric.labels if label not in chosen or chosen[label].startswith("$")]
    return f" by ({', '.join(left)})" if left else ""
