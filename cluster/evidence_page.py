"""The picture of the evidence on grouping: every way of judging with its intervals, one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from services.reports.page import write_page

_PANELS = (
    ("bias", "bias (length of the mean error, true gradient = 1)", "linear"),
    ("slope", "mean gradient along the true one (1 = unshrunk)", "linear"),
    ("effective_samples", "effective samples (no baseline = 1)", "log"),
    ("sign_agreement", "parameters with the right sign (weighted)", "linear"),
)
_RETURNS = {"per_phase": ("one return a turn, discounted", "#5480f0"), "episode": ("one return an episode", "#d98032")}
_NAMES = {
    "none": "no baseline",
    "batch": "batch mean",
    "country+lineup": "country + line-up",
    "country+phase+own_centers": "country + phase + own centres",
    "shrunk country+phase+own_centers<country+phase": "country + phase + own centres, shrunk",
    "shrunk country+fork<country+lineup": "country + fork, shrunk",
    "country+return_quartile": "country + return quartile (an outcome)",
}


def way_name(way: str) -> str:
    """A way of judging in words."""
    return _NAMES.get(way, way.replace("+", " + "))


def write_evidence_page(evidence: Mapping[str, Any], out: Path) -> Path:
    """Write the page of what ``measure_grouping`` found.

    Raises:
        ReportError: it cannot be written.
    """
    ways = list(dict.fromkeys(row["way"] for row in evidence["rows"]))
    figure = make_subplots(
        rows=2, cols=2, subplot_titles=[title for _, title, _ in _PANELS], shared_yaxes=True, horizontal_spacing=0.03
    )
    for number, (measure, _, scale) in enumerate(_PANELS):
        row, column = number // 2 + 1, number % 2 + 1
        for returns, (name, color) in _RETURNS.items():
            rows = [line for line in evidence["rows"] if line["returns"] == returns]
            values = [line[measure] for line in rows]
            figure.add_trace(
                go.Scatter(
                    x=[value["value"] for value in values],
                    y=[way_name(line["way"]) for line in rows],
                    error_x={
                        "type": "data",
                        "symmetric": False,
                        "array": [value["high"] - value["value"] for value in values],
                        "arrayminus": [value["value"] - value["low"] for value in values],
                    },
                    mode="markers",
                    marker={"color": color, "size": 9},
                    name=name,
                    legendgroup=returns,
                    showlegend=number == 0,
                ),
                row=row,
                col=column,
            )
        figure.update_xaxes(type=scale, row=row, col=column)
    figure.update_yaxes(categoryorder="array", categoryarray=[way_name(way) for way in reversed(ways)])
    figure.update_layout(
        title={
            "text": (
                f"What grouping does to the policy gradient: {evidence['episodes']:,} episodes, "
                f"{evidence['turns']:,} turns, {evidence['batches']} batches of {evidence['episodes_a_batch']}; "
                f"95% intervals; commit {evidence['commit']}"
            ),
            "font": {"size": 15},
        },
        template="plotly_white",
        height=820,
        width=1180,
        legend={"orientation": "h", "y": -0.06},
        margin={"l": 10, "r": 20, "t": 90, "b": 40},
    )
    return write_page(out, figure.to_html(include_plotlyjs=True, full_html=True))
