"""The charts of a run's report, as plain Plotly traces; ``@name`` is a colour of the page, light or dark."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any
from urllib.parse import unquote

from grpo_core.types import Measure, role_label
from services.reports.colors import ALL, SERIES, line_color
from services.reports.run_report.data import Points, RunData, checkpoint_update, interval

# Plotly's names of symbols, and characters like them for the notes.
SYMBOLS = (("diamond", "◇"), ("square", "□"), ("triangle-up", "△"), ("circle", "○"), ("star", "☆"))
OTHER = "@muted"  # roles that the world does not have
_MARKER_SHARE = 0.1  # of the width of a small chart: the distance at which two markers do not hide one another

Chart = dict[str, Any]  # id, section, title, note, y (axis title), traces, and options of the layout


def charts(run: RunData) -> list[Chart]:
    """Return all charts with data, in the order of the page."""
    made = [*_roles(run), *_comparisons(run), *_speed(run), *_learning(run), *_groups(run)]
    return [chart for chart in made if any(trace["y"] for trace in chart["traces"])]


def until(row: Mapping[str, Any]) -> str:
    """Say how far an evaluation's games went, where it says so."""
    return f", to the end of {row['until_year']}" if row.get("until_year") else ""


def anchors(run: RunData) -> list[str]:
    """Return the opponents of the evaluations, in order of first appearance."""
    return list(dict.fromkeys(str(row["against"]) for row in run.course))


def smooth(values: Sequence[float], width: int) -> list[float]:
    """Return the centred moving average over ``width`` (odd) values, fewer at the ends."""
    half = width // 2
    return [fmean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]


def smoothing_width(count: int) -> int:
    """Return the width of the moving average: about a tenth of the points, odd, at least 3."""
    return max(3, round(count / 10) | 1)


def _chart(name: str, section: str, title: str, y: str, traces: list[dict[str, Any]], **more: Any) -> Chart:
    return {"id": name, "section": section, "title": title, "y": y, "traces": traces, **more}


def _shown(label: str) -> str:
    """Return a label of a metric's key as Plotly shows it, which takes some HTML in names for formatting."""
    return html.escape(unquote(label))


def _scatter(points: Points, name: str, mode: str, **more: Any) -> dict[str, Any]:
    return {"type": "scatter", "mode": mode, "x": points[0], "y": points[1], "name": name, **more}


def _line(points: Points, name: str, color: str) -> dict[str, Any]:
    return _scatter(points, name, "lines", line={"color": color, "width": 2})


def _smooth_line(points: Points, name: str, color: str) -> dict[str, Any]:
    xs, ys = points
    return _line((xs, smooth(ys, smoothing_width(len(ys)))), name, color)


def _raw_and_smooth(points: Points, name: str, color: str = SERIES[0]) -> list[dict[str, Any]]:
    raw = _scatter(points, f"{name}, one update", "markers", marker={"color": color, "size": 4, "opacity": 0.35})
    return [raw, _smooth_line(points, name, color)]


def _measured_chart(
    run: RunData, name: str, section: str, title: str, traces: list[dict[str, Any]], **more: Any
) -> Chart:
    """Return a chart of the main measure, with the line of an even share where there is one."""
    main = run.measured.main
    chart = _chart(name, section, title, main.heading, traces, **more)
    return chart if main.even is None else {**chart, "even": main.even}


def _roles(run: RunData) -> list[Chart]:
    measured = run.measured
    overall = _raw_and_smooth(run.role_mean(run.batch_metric), "training games", f"@{ALL}") + _evaluated(run, None)
    name = measured.role_name
    made = [_measured_chart(run, f"{name}-all", "curves", f"All {measured.plural}", overall, zero=True)]
    for role in run.roles:
        color = line_color(role, measured.roles) or OTHER
        traces = _raw_and_smooth(run.series(run.of_role(run.batch_metric, role)), "training games", color)
        traces += _evaluated(run, role)
        made.append(_measured_chart(run, f"{name}-{role}", "curves", role_label(role), traces, zero=True))
    return made


def _evaluated(run: RunData, role: str | None) -> list[dict[str, Any]]:
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
        hover = {"customdata": updates, "hovertemplate": f"update %{{customdata}}: %{{y:{form}}}"}
        traces.append(_scatter(points, name, "markers", marker=marker, error_y=_error_bars(rows, main), **hover))
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
        for number, name in enumerate(here):
            places[update, name] = update + (number - (len(here) - 1) / 2) * step
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


def _comparisons(run: RunData) -> list[Chart]:
    made = []
    for against in anchors(run):
        rows = [row for row in run.course if row["against"] == against]
        compared = [("before", rows[0], "@muted"), ("after", rows[-1], "@accent")]
        if len(rows) == 1:
            compared = [("trained" if checkpoint_update(rows[0]) else "untrained", rows[0], "@accent")]
        control = [row for row in run.evaluations if row["against"] == against and row not in run.course]
        compared[1:1] = [("control: imitation alone", row, OTHER) for row in control]
        traces = [
            _bars(run, row, f"{when} ({html.escape(str(row['checkpoint']))})", color) for when, row, color in compared
        ]
        title = f"{run.measured.versus.capitalize()} {against}{until(rows[-1])}"
        made.append(_measured_chart(run, f"against-{against}", "comparison", title, traces, legend=True, category=True))
    return made


def _bars(run: RunData, row: Mapping[str, Any], name: str, color: str) -> dict[str, Any]:
    """Return the bars of an evaluation's roles."""
    main = run.measured.main
    found = row.get(run.measured.by_role, {})
    cells = {role: cell for role, cell in found.items() if cell.get(main.row_name) is not None}
    return {
        "type": "bar",
        "x": [html.escape(role_label(role)) for role in cells],
        "y": [cell[main.row_name] for cell in cells.values()],
        "name": name,
        "marker": {"color": color},
        "error_y": _error_bars(list(cells.values()), main),
    }


def _speed(run: RunData) -> list[Chart]:
    rates = (
        ("games", "Games", "games / h", "entente_games_total", 3600.0),
        ("decisions", "Decisions", "decisions / s", "entente_decisions_total", 1.0),
        ("completions", "Tokens written", "tokens / s", "entente_completion_tokens_total", 1.0),
        ("learned", "Tokens learned from", "tokens / s", "entente_learner_tokens_total", 1.0),
    )
    made = [
        _chart(f"speed-{name}", "speed", title, unit, _raw_and_smooth(run.rate(key, per), title), zero=True)
        for name, title, unit, key, per in rates
    ]
    parts = (
        ("learner", "entente_learner_busy_seconds_total", SERIES[1]),
        ("rollout workers, summed", "entente_rollout_busy_seconds_total", SERIES[0]),
        ("both at once", "entente_overlap_seconds_total", SERIES[2]),
    )
    busy = [_smooth_line(run.rate(key), name, color) for name, key, color in parts]
    made.append(_chart("speed-busy", "speed", "Busy", "seconds / second", busy, legend=True, zero=True))
    swap = [_line(run.series("entente_weight_swap_seconds"), "swap", SERIES[0])]
    made.append(_chart("speed-swap", "speed", "Weight swap", "seconds", swap, zero=True))
    return made


def _learning(run: RunData) -> list[Chart]:
    gauges = (
        ("reward", "Mean return", "reward", "entente_episode_reward", False),
        ("loss", "Loss", "", "entente_loss", False),
        ("entropy", "Entropy", "nats / token", "entente_entropy", True),
        ("kl", "KL to behaviour (k3)", "nats / token", "entente_kl", True),
        ("grad-norm", "Gradient norm", "", "entente_grad_norm", True),
        ("clip", "Clipped tokens", "share", "entente_clip_fraction", True),
        ("zero-variance", "Samples in zero-variance groups", "share", "entente_zero_variance_fraction", True),
        ("defects", "Defective orders", "orders, in all", "entente_defective_orders_total", True),
    )
    made = [
        _chart(f"learning-{name}", "learning", title, unit, _raw_and_smooth(run.series(key), title), zero=zero)
        for name, title, unit, key, zero in gauges
    ]
    thoughts = [
        _line(run.series("entente_thought_tokens"), "mean", SERIES[0]),
        _line(run.series("entente_thought_tokens_max"), "longest", SERIES[1]),
    ]
    made.append(_chart("learning-thoughts", "learning", "Thoughts", "tokens", thoughts, legend=True, zero=True))
    staleness = [
        _line(run.series("entente_staleness_updates"), "mean", SERIES[0]),
        _line(run.series("entente_staleness_updates_max"), "largest", SERIES[1]),
    ]
    made.append(_chart("learning-staleness", "learning", "Staleness", "updates", staleness, legend=True, zero=True))
    parts = [
        _line(run.series(f"entente_reward_part{{part={part}}}"), _shown(part), SERIES[i % len(SERIES)])
        for i, part in enumerate(run.label_values("entente_reward_part"))
    ]
    made.append(_chart("learning-parts", "groups", "Reward parts, unweighted", "mean", parts, legend=True))
    return made


def _groups(run: RunData) -> list[Chart]:
    """Return the samples in groups of each level of the fallback chain, and the mean size of these groups."""
    levels = [str(level) for level in run.audits[-1].get("keys", ())] if run.audits else []
    levels += [level for level in run.label_values("entente_groups") if level not in levels]
    counts, sizes = [], []
    for i, level in enumerate(levels):
        color = SERIES[i % len(SERIES)]
        size = run.series(f"entente_group_size{{level={level}}}")
        groups = dict(zip(*run.series(f"entente_groups{{level={level}}}"), strict=True))
        samples = [groups.get(x, 0.0) * mean for x, mean in zip(*size, strict=True)]
        counts.append({"type": "bar", "x": size[0], "y": samples, "name": _shown(level), "marker": {"color": color}})
        sizes.append(_line(size, _shown(level), color))
    options = {"legend": True, "stacked": True}
    return [
        _chart("groups-samples", "groups", "Samples by level", "samples", counts, **options),
        _chart("groups-size", "groups", "Mean group size", "samples", sizes, legend=True, zero=True),
    ]
