"""The grouping study as a table and as one self-contained page: every way of grouping with its intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from services.reports.page import write_page

_PANELS = (
    ("bias", "bias (length of the mean error, true gradient = 1)", "linear"),
    ("slope", "mean gradient along the true one (1 = unshrunk)", "linear"),
    ("effective_samples", "effective samples (batch mean = 1)", "log"),
    ("sign_agreement", "parameters with the right sign (weighted)", "linear"),
)
_COLUMNS = {
    "bias": "bias",
    "slope": "slope",
    "noise": "noise",
    "sign_agreement": "signs",
    "effective_samples": "samples",
}
_KINDS = {
    "sum": ("one return a turn", "#5480f0"),
    "mean": ("one return a turn, averaged over its tokens (loss_type grpo)", "#2e8b57"),
    "episode": ("one return an episode", "#d98032"),
}
_NAMES = {
    "none": "no baseline",
    "batch": "batch mean",
    "country+lineup": "country + line-up",
    "country+phase+own_centers": "country + phase + own centres",
    "country+phase+own_centers < country+phase, shrunk": "country + phase + own centres, shrunk",
    "country+fork < country+lineup, shrunk": "country + fork, shrunk",
    "country+return_quartile": "country + return quartile (an outcome)",
}
_DROWNED_OFTEN = 0.05  # share of left-out draws above which intervals are reported as too narrow


def way_name(way: str) -> str:
    """The display name of a way of grouping."""
    return _NAMES.get(way, way.replace("+", " + "))


def _kind(row: Mapping[str, Any]) -> str:
    """The key of a row in ``_KINDS``."""
    return "episode" if row["returns"] == "episode" else str(row["tokens"])


def show(study: Mapping[str, Any], console: Console) -> None:
    """Print a table for each kind of gradient, with 95% intervals, and warn where those are too narrow."""
    console.print(
        f"{study['episodes']:,} episodes, {study['turns']:,} turns, {study['batches']} batches of "
        f"{study['episodes_a_batch']}; lengths are in those of the true gradient",
        markup=False,
    )
    for kind, (title, _) in _KINDS.items():
        table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("groups", overflow="fold", min_width=16)
        for name in _COLUMNS.values():
            table.add_column(name, justify="right", no_wrap=True)
        for row in study["rows"]:
            if _kind(row) == kind:
                table.add_row(way_name(row["way"]), *(_cell(row[measure]) for measure in _COLUMNS))
        console.print(table)
    drowned = [row for row in study["rows"] if row.get("drowned", 0.0) > _DROWNED_OFTEN]
    if drowned:
        most = max(drowned, key=lambda row: row["drowned"])
        console.print(
            f"{len(drowned)} of {len(study['rows'])} rows left more than {_DROWNED_OFTEN:.0%} of the bootstrap's "
            f"draws out of their intervals for want of signal (most: {most['drowned']:.0%}, {way_name(most['way'])}): "
            "those intervals are too narrow; play more batches",
            markup=False,
            highlight=False,
        )


def _cell(value: Mapping[str, float | None]) -> str:
    estimate, low, high = (value[name] for name in ("value", "low", "high"))
    if estimate is None or low is None or high is None:
        return "drowned\n[dim]in noise[/]"
    return f"{_short(estimate)}\n[dim]{_short(low)}..{_short(high)}[/]"


def _short(number: float) -> str:
    return f"{number:.2f}" if abs(number) < 10 else f"{number:.0f}" if abs(number) < 1e4 else f"{number:.0e}"


def write_study_page(study: Mapping[str, Any], out: Path) -> Path:
    """Write the page of a study from ``measure_grouping``. Raises ReportError if it cannot be written."""
    ways = list(dict.fromkeys(row["way"] for row in study["rows"]))
    ways.sort(key=lambda way: "return_quartile" in way)  # the forbidden one comes last
    figure = make_subplots(
        rows=2,
        cols=2,
        subplot_titles=[title for _, title, _ in _PANELS],
        shared_yaxes=True,
        horizontal_spacing=0.03,
        vertical_spacing=0.09,
    )
    for number, (measure, _, scale) in enumerate(_PANELS):
        row, column = number // 2 + 1, number % 2 + 1
        for offset, kind in zip((-0.22, 0, 0.22), _KINDS, strict=True):  # side by side
            series = _series(study["rows"], kind, measure, ways, offset)
            figure.add_trace(series.update(showlegend=number == 0), row=row, col=column)
        figure.update_xaxes(type=scale, row=row, col=column)
    figure.update_yaxes(
        tickvals=list(range(len(ways))), ticktext=[way_name(way) for way in ways], range=[len(ways) - 0.5, -0.5]
    )
    figure.update_layout(
        title={
            "text": (
                f"What grouping does to the policy gradient: {study['episodes']:,} episodes, {study['turns']:,} turns, "
                f"{study['batches']} batches of {study['episodes_a_batch']}; 95% intervals; commit {study['commit']}"
            ),
            "font": {"size": 15},
        },
        template="plotly_white",
        height=900,
        width=1180,
        legend={"orientation": "h", "y": -0.06},
        margin={"l": 10, "r": 20, "t": 90, "b": 40},
    )
    return write_page(out, figure.to_html(include_plotlyjs=True, full_html=True))


def _series(
    rows: Sequence[Mapping[str, Any]], kind: str, measure: str, ways: Sequence[str], offset: float
) -> go.Scatter:
    """Plot a measure of one kind of gradient, a point with its interval for each way that is not lost in noise."""
    known = [row for row in rows if _kind(row) == kind and None not in row[measure].values()]
    values = [row[measure] for row in known]
    name, color = _KINDS[kind]
    return go.Scatter(
        x=[value["value"] for value in values],
        y=[ways.index(row["way"]) + offset for row in known],
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [value["high"] - value["value"] for value in values],
            "arrayminus": [value["value"] - value["low"] for value in values],
        },
        mode="markers",
        marker={"color": color, "size": 7},
        name=name,
        legendgroup=name,
    )
