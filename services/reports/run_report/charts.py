"""The charts of a run's report, as plain Plotly traces; ``@name`` colours are the page's, light or dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from services.reports.colors import LINE_COLORS, OTHER
from services.reports.run_report.data import Points, RunData, checkpoint_update, interval

# Plotly's name and a character like it, for the notes.
SYMBOLS = (("diamond", "◆"), ("square", "■"), ("star", "★"), ("triangle-up", "▲"), ("cross", "✚"))
_PALETTE = ("#5480f0", "#d98032", "#2fa043", "#a855e0", "#c2a50a", "#d4695c", "#3aa6a6")
_SMOOTHED_SHARE = 0.1  # of the updates one smoothed point averages over

Chart = dict[str, Any]  # id, section, title, note, y (axis title), traces, and options of the layout


def charts(run: RunData) -> list[Chart]:
    """Every chart that has something to show, in the order of the page."""
    made = [*_countries(run), *_comparisons(run), *_speed(run), *_learning(run), *_groups(run)]
    return [chart for chart in made if any(trace["y"] for trace in chart["traces"])]


def anchors(run: RunData) -> list[str]:
    """Whom the policy was evaluated against, in order of first appearance."""
    return list(dict.fromkeys(str(row["against"]) for row in run.evaluations))


def smooth(values: Sequence[float], width: int) -> list[float]:
    """Centred moving average over ``width`` (odd) values, fewer at the ends."""
    half = width // 2
    return [fmean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]


def smoothing_width(count: int) -> int:
    """An odd number of points to average over, about a tenth of all, at least 3."""
    return max(3, round(count * _SMOOTHED_SHARE) | 1)


def _chart(name: str, section: str, title: str, y: str, traces: list[dict[str, Any]], **more: Any) -> Chart:
    return {"id": name, "section": section, "title": title, "y": y, "traces": traces, **more}


def _line(points: Points, name: str, color: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": points[0],
        "y": points[1],
        "name": name,
        "line": {"color": color, "width": 2},
        **more,
    }


def _raw_and_smooth(points: Points, name: str, color: str) -> list[dict[str, Any]]:
    xs, ys = points
    raw = {
        "type": "scatter",
        "mode": "markers",
        "x": xs,
        "y": ys,
        "name": f"{name}, one update",
        "marker": {"color": color, "size": 4, "opacity": 0.35},
    }
    return [raw, _smooth_line(points, name, color)]


def _smooth_line(points: Points, name: str, color: str) -> dict[str, Any]:
    xs, ys = points
    return _line((xs, smooth(ys, smoothing_width(len(ys)))), name, color)


def _single(points: Points, name: str) -> list[dict[str, Any]]:
    return _raw_and_smooth(points, name, _PALETTE[0])


def _countries(run: RunData) -> list[Chart]:
    overall = _raw_and_smooth(run.country_mean("entente_batch_centers"), "training games", "@accent")
    overall += _evaluated(run, None)
    made = [_chart("country-all", "curves", "All countries", "centres", overall, zero=True)]
    for country in run.countries:
        color = LINE_COLORS.get(country, OTHER)
        traces = _raw_and_smooth(run.course(f"entente_batch_centers{{country={country}}}"), "training games", color)
        traces += _evaluated(run, country)
        made.append(_chart(f"country-{country}", "curves", country.capitalize(), "centres", traces, zero=True))
    return made


def _evaluated(run: RunData, country: str | None) -> list[dict[str, Any]]:
    """Evaluation points of a country (None: of all together) with their intervals, one trace an anchor."""
    traces = []
    for against, (symbol, _) in zip(anchors(run), SYMBOLS, strict=False):
        rows = [row for row in run.evaluations if row["against"] == against]
        if country is None:
            points = [(checkpoint_update(row), row) for row in rows]
        else:
            found = [row for row in rows if country in row.get("by_country", {})]
            points = [(checkpoint_update(row), row["by_country"][country]) for row in found]
        traces.append(_with_bars(points, against, symbol))
    return traces


def _with_bars(rows: Sequence[tuple[float, Mapping[str, Any]]], against: str, symbol: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [x for x, _ in rows],
        "y": [row["mean_centers"] for _, row in rows],
        "name": f"evaluation against {against}",
        "marker": {"color": "@ink", "symbol": symbol, "size": 9},
        "error_y": _error([row for _, row in rows]),
    }


def _error(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    intervals = [interval(row, "mean_centers") for row in rows]
    pairs = list(zip(rows, intervals, strict=True))
    return {
        "type": "data",
        "symmetric": False,
        "array": [0 if ends is None else ends[1] - row["mean_centers"] for row, ends in pairs],
        "arrayminus": [0 if ends is None else row["mean_centers"] - ends[0] for row, ends in pairs],
        "color": "@ink",
        "thickness": 1.2,
        "width": 3,
    }


def _comparisons(run: RunData) -> list[Chart]:
    made = []
    for against in anchors(run):
        rows = [row for row in run.evaluations if row["against"] == against]
        compared = [("before", rows[0], "@muted"), ("after", rows[-1], "@accent")] if len(rows) > 1 else []
        compared = compared or [("trained" if checkpoint_update(rows[0]) else "untrained", rows[0], "@accent")]
        traces = [
            {
                "type": "bar",
                "x": [country.capitalize() for country in row.get("by_country", {})],
                "y": [one["mean_centers"] for one in row["by_country"].values()],
                "name": f"{when} ({row['checkpoint']})",
                "marker": {"color": color},
                "error_y": _error(list(row["by_country"].values())),
            }
            for when, row, color in compared
            if row.get("by_country")
        ]
        title = f"Against {against}, to the end of {rows[-1].get('until_year', '?')}"
        made.append(_chart(f"against-{against}", "comparison", title, "centres", traces, legend=True, category=True))
    return made


def _speed(run: RunData) -> list[Chart]:
    wanted = (
        ("games", "Games", "games / h", "entente_games_total", 3600.0),
        ("decisions", "Decisions", "decisions / s", "entente_decisions_total", 1.0),
        ("completions", "Tokens written", "tokens / s", "entente_completion_tokens_total", 1.0),
        ("learned", "Tokens learned from", "tokens / s", "entente_learner_tokens_total", 1.0),
    )
    made = [
        _chart(
            f"speed-{name}", "speed", title, unit, _raw_and_smooth(run.rate(key, per), title, _PALETTE[0]), zero=True
        )
        for name, title, unit, key, per in wanted
    ]
    parts = (
        ("learner", "entente_learner_busy_seconds_total", _PALETTE[1]),
        ("rollout workers, summed", "entente_rollout_busy_seconds_total", _PALETTE[0]),
        ("both at once", "entente_overlap_seconds_total", _PALETTE[2]),
    )
    busy = [_smooth_line(run.rate(key), name, color) for name, key, color in parts]
    made.append(_chart("speed-busy", "speed", "Busy", "seconds / second", busy, legend=True, zero=True))
    swap = [_line(run.course("entente_weight_swap_seconds"), "swap", _PALETTE[0])]
    made.append(_chart("speed-swap", "speed", "Weight swap", "seconds", swap, zero=True))
    return made


def _learning(run: RunData) -> list[Chart]:
    singles = (
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
        _chart(
            f"learning-{name}", "learning", title, unit, _raw_and_smooth(run.course(key), title, _PALETTE[0]), zero=zero
        )
        for name, title, unit, key, zero in singles
    ]
    staleness = [
        _line(run.course("entente_staleness_updates"), "mean", _PALETTE[0]),
        _line(run.course("entente_staleness_updates_max"), "largest", _PALETTE[1]),
    ]
    made.append(_chart("learning-staleness", "learning", "Staleness", "updates", staleness, legend=True, zero=True))
    parts = [
        _line(run.course(f"entente_reward_part{{part={part}}}"), part, _PALETTE[i % len(_PALETTE)])
        for i, part in enumerate(run.label_values("entente_reward_part"))
    ]
    made.append(_chart("learning-parts", "groups", "Reward parts, unweighted", "mean", parts, legend=True))
    return made


def _groups(run: RunData) -> list[Chart]:
    """How many samples each level of the fallback chain judged, and how large its groups were."""
    levels = [str(level) for level in run.audits[-1].get("keys", ())] if run.audits else []
    levels += [level for level in run.label_values("entente_groups") if level not in levels]
    shares, sizes = [], []
    for i, level in enumerate(levels):
        color = _PALETTE[i % len(_PALETTE)]
        size = run.course(f"entente_group_size{{level={level}}}")
        groups = dict(zip(*run.course(f"entente_groups{{level={level}}}"), strict=True))
        samples = [groups.get(x, 0.0) * mean for x, mean in zip(*size, strict=True)]
        shares.append({"type": "bar", "x": size[0], "y": samples, "name": level, "marker": {"color": color}})
        sizes.append(_line(size, level, color))
    return [
        _chart(
            "groups-samples", "groups", "Samples judged at each level", "samples", shares, legend=True, stacked=True
        ),
        _chart("groups-size", "groups", "Mean group size", "samples", sizes, legend=True, zero=True),
    ]
