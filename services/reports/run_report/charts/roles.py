"""Learning curves by role, and evaluations before and after."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from grpo_core.types import Measure, role_label
from services.reports.colors import ALL, line_color
from services.reports.run_report.charts.chart import OTHER, Chart, Trace, make_chart, number, raw_and_smooth, scatter
from services.reports.run_report.data import CONTROL, MUTED, RunData, checkpoint_update, interval

# Plotly's names of symbols, and characters like them for the notes.
SYMBOLS = (("diamond", "◇"), ("square", "□"), ("triangle-up", "△"), ("circle", "○"), ("star", "☆"))
_MARKER_SHARE = 0.1  # of the width of a small chart: the distance at which two markers do not hide one another


def until(row: Mapping[str, Any]) -> str:
    """Say how far an evaluation's games went, where it says so."""
    return f", to the end of {row['until_year']}" if row.get("until_year") else ""


def anchors(run: RunData) -> list[str]:
    """Return the opponents of the evaluations, in order of first appearance."""
    return list(dict.fromkeys(str(row["against"]) for row in run.course))


def curves(run: RunData) -> list[Chart]:
    """Return the main measure over the updates, of all roles together and of each."""
    measured = run.measured
    points = run.role_mean(run.batch_metric)
    overall = raw_and_smooth(points, "training games", f"@{ALL}") + _evaluated(run, None)
    name = measured.role_name
    made = [_measured_chart(run, f"{name}-all", "curves", f"All {measured.plural}", overall, zero=True)]
    for role in run.roles:
        color = line_color(role, measured.roles) or OTHER
        traces = raw_and_smooth(run.series(run.of_role(run.batch_metric, role)), "training games", color)
        traces += _evaluated(run, role)
        made.append(_measured_chart(run, f"{name}-{role}", "curves", role_label(role), traces, zero=True))
    for chart in made:
        chart["note"] = _figures(chart)
    return made


def _measured_chart(run: RunData, name: str, section: str, title: str, traces: list[Trace], **more: Any) -> Chart:
    """Return a chart of the main measure, with the line of an even share where there is one."""
    main = run.measured.main
    chart = make_chart(name, section, title, main.heading, traces, **{"note": "", **more})
    return chart if main.even is None else {**chart, "even": main.even}


def _figures(chart: Chart) -> str:
    """Say a curve's figures below it, where the section says how to read it."""
    said = [html.unescape(trace["say"]) for trace in chart["traces"] if trace.get("say")]
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if said else ""


def _evaluated(run: RunData, role: str | None) -> list[Trace]:
    """Return the evaluations of a role (None: of all together) with their intervals, one trace per anchor.

    Several anchors of one checkpoint stand beside one another; the hover text has the true update.
    """
    traces = []
    main, by_role = run.measured.main, run.measured.by_role
    places = _marker_places(run)
    for against, (symbol, _) in zip(anchors(run), SYMBOLS, strict=False):
        chosen = [row for row in run.course if row["against"] == against]
        if role is not None:
            chosen = [row for row in chosen if row.get(by_role, {}).get(role, {}).get(main.row_name) is not None]
        rows = [row if role is None else row[by_role][role] for row in chosen]
        updates: list[float] = [checkpoint_update(row) for row in chosen]
        points = [places[update, against] for update in updates], [row[main.row_name] for row in rows]
        marker = {"color": "@card", "symbol": symbol, "size": 8, "line": {"color": "@ink", "width": 1.6}}
        name = f"evaluation {run.measured.versus} {html.escape(against)}"
        form = ".0%" if main.kind == "share" else f".{main.digits}f"
        hover: dict[str, Any] = {
            "cliponaxis": False,
            "customdata": updates,
            "hovertemplate": f"update %{{customdata}}: %{{y:{form}}}",
        }
        if rows:
            hover["say"] = f"{name}: {number(points[1][-1])} in update {updates[-1]:g}"
        traces.append(scatter(points, name, "markers", marker=marker, error_y=_error_bars(rows, main), **hover))
    return traces


def _marker_places(run: RunData) -> dict[tuple[float, str], float]:
    """Return where the marker of a checkpoint's update and opponent stands: around the update, in updates.

    The markers of a checkpoint stay nearer to it than to the next one.
    """
    met: dict[int, list[str]] = {}  # the opponents of a checkpoint
    for row in run.course:
        met.setdefault(checkpoint_update(row), []).append(str(row["against"]))
    known = anchors(run)
    evaluated = sorted(met)
    updates = [*(line["update"] for line in run.lines), *evaluated, 1, 2]
    between = min((later - earlier for earlier, later in pairwise(evaluated)), default=max(updates))
    most = max((len(set(names)) for names in met.values()), default=1)
    step = min(_MARKER_SHARE * (max(updates) - min(updates)), between / most)
    places: dict[tuple[float, str], float] = {}
    for update, names in met.items():
        here = sorted(set(names), key=known.index)
        for place, name in enumerate(here):
            places[update, name] = update + (place - (len(here) - 1) / 2) * step
    return places


def _error_bars(rows: Sequence[Mapping[str, Any]], main: Measure) -> dict[str, Any]:
    means = [row[main.row_name] for row in rows]
    ends = [interval(row, main) or (mean, mean) for row, mean in zip(rows, means, strict=True)]
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - mean for mean, (_, high) in zip(means, ends, strict=True)],
        "arrayminus": [mean - low for mean, (low, _) in zip(means, ends, strict=True)],
        "color": "@ink",
        "thickness": 1.2,
        "width": 3,
    }


def comparisons(run: RunData) -> list[Chart]:
    """Return each role's main measure in the first and the last evaluation against each opponent."""
    made = []
    for against in anchors(run):
        rows = [row for row in run.course if row["against"] == against]
        compared = [("before", rows[0], "@muted"), ("after", rows[-1], "@accent")]
        if len(rows) == 1:
            compared = [("trained" if checkpoint_update(rows[0]) else "untrained", rows[0], "@accent")]
        beside = [row for row in run.evaluations if row["against"] == against]
        compared[1:1] = [("control: imitation alone", row, OTHER) for row in beside if row.get("label") == CONTROL]
        compared += [("after, letters withheld", row, OTHER) for row in beside if row.get("label") == MUTED]
        traces = [
            _bars(run, row, f"{when} ({html.escape(str(row['checkpoint']))})", color) for when, row, color in compared
        ]
        title = f"{run.measured.versus.capitalize()} {against}{until(rows[-1])}"
        note = f"One bar for each {run.measured.role_name} and evaluation, with its 95% interval."
        options = {"legend": True, "category": True, "note": note}
        made.append(_measured_chart(run, f"against-{against}", "comparison", title, traces, **options))
    return made


def _bars(run: RunData, row: Mapping[str, Any], name: str, color: str) -> Trace:
    """Return the bars of an evaluation's roles."""
    main = run.measured.main
    found = row.get(run.measured.by_role, {})
    cells = {role: cell for role, cell in found.items() if cell.get(main.row_name) is not None}
    figures = [f"{role_label(role)} {number(cell[main.row_name])}" for role, cell in cells.items()]
    return {
        "type": "bar",
        "x": [html.escape(role_label(role)) for role in cells],
        "y": [cell[main.row_name] for cell in cells.values()],
        "name": name,
        "marker": {"color": color},
        "error_y": _error_bars(list(cells.values()), main),
        "say": f"{name}: {', '.join(figures)}",
    }
