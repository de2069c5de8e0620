"""The charts of groups: sizes, a heat map, how they converge, and their weights."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from grpo_core.types import role_label
from services.reports.colors import SERIES, line_color
from services.reports.run_report.charts.chart import (
    OTHER,
    Chart,
    Trace,
    course,
    line,
    make_chart,
    number,
    smooth_line,
    smoothing_width,
)
from services.reports.run_report.data import RunData
from services.reports.run_report.groups.buckets import Bucket
from services.reports.run_report.groups.figures import CLASS_NAMES, Figures, by_role, by_size, recurring

MOST_LINES = 8  # of a role's groups; one colour each
MOST_WEIGHTS = 12
# Of the classes of sizes, from pale to dark; they are told apart on a light and on a dark page.
_BLUES = ("#dfecf8", "#c3daee", "#a0c8e4", "#77b3d9", "#539bcb", "#3682bd", "#216aab", "#1a5599")
_RISING = [[0, "@card"], [1, "@FRANCE"]]
_AROUND_ZERO = [[0, "@AUSTRIA"], [0.5, "@card"], [1, "@FRANCE"]]
_ROW_PX, _MARGINS_PX = 20, 110

# The heat map's values: name, label, unit, what it is of a row's figures, and whether it has a sign.
Value = tuple[str, str, str, Callable[[Figures], float | None], bool]
VALUES: tuple[Value, ...] = (
    ("mean", "mean return", "return", lambda row: row.mean, True),
    ("std", "deviation within groups", "return", lambda row: row.std, False),
    ("zero", "samples in zero-variance groups", "share", lambda row: row.zero_variance, False),
    ("judged", "samples judged", "samples", lambda row: row.judged or None, False),
)
ADVANTAGE = ("advantage", "mean advantage", "advantage")


def group_charts(run: RunData, buckets: Sequence[Bucket]) -> list[Chart]:
    """Return the charts of the section of groups."""
    if not buckets:
        return []
    roles, groups = by_role(buckets), recurring(buckets)
    return [
        _sizes(buckets),
        _kinds(buckets),
        _heat_map(run, buckets, roles, groups),
        *_convergence(run, buckets, roles, groups),
    ]


def _sizes(buckets: Sequence[Bucket]) -> Chart:
    xs = [bucket.last for bucket in buckets]
    traces: list[Trace] = []
    for name, counts in by_size(buckets).items():
        said = f"size {name}: {number(counts[-1])} groups in {buckets[-1].label}"
        bars = {"type": "bar", "x": xs, "y": counts, "name": name, "say": said}
        traces.append({**bars, "marker": {"color": _BLUES[CLASS_NAMES.index(name)]}})
    note = "Groups of an update by their number of samples, from small (pale) to large (dark), at all levels."
    options = {"legend": True, "stacked": True}
    return make_chart("groups-by-size", "groups", "Groups by size", "groups", traces, note, **options)


def _kinds(buckets: Sequence[Bucket]) -> Chart:
    kinds = (
        ("zero_variance_fraction", "zero variance", SERIES[0]),
        ("fallback_fraction", "fell back to a coarser key", SERIES[1]),
        ("running_baseline_fraction", "running baseline, no group", SERIES[2]),
    )
    traces = []
    for key, name, color in kinds:
        found = [(bucket.last, [audit.metrics.get(key) for audit in bucket.audits]) for bucket in buckets]
        known = [(x, fmean(value for value in values if value is not None)) for x, values in found
                 if any(value is not None for value in values)]  # fmt: skip
        traces.append(line(([x for x, _ in known], [y for _, y in known]), name, color))
    note = (
        "Zero variance teaches nothing, a coarser key or a running baseline teaches with more noise; lower is better."
    )
    options = {"legend": True, "zero": True}
    return make_chart("groups-kinds", "groups", "Zero variance and fallback", "share", traces, note, **options)


Rows = Mapping[str, Sequence[float | None]]


def _heat_map(
    run: RunData,
    buckets: Sequence[Bucket],
    roles: Mapping[str, Sequence[Figures]],
    groups: Mapping[str, Mapping[tuple[str, str], Sequence[Figures]]],
) -> Chart:
    traces = []
    known = _ordered(run, roles)
    for name, label, unit, value, signed in VALUES:
        views: dict[str, Rows] = {"": {_label(role): [value(row) for row in roles[role]] for role in known}}
        for role in known:
            rows = labelled(groups.get(role, {})) or {_label(role): roles[role]}
            views[role] = {text: [value(figures) for figures in row] for text, row in rows.items()}
        traces += [_map(buckets, rows, role, name, label, unit, signed) for role, rows in views.items()]
    advantages = {_label(role): [_mean_advantage(bucket, role) for bucket in buckets] for role in known}
    if any(value is not None for row in advantages.values() for value in row):
        views = {"": advantages, **{role: {_label(role): advantages[_label(role)]} for role in known}}
        traces += [_map(buckets, rows, role, *ADVANTAGE, True) for role, rows in views.items()]
    role_name = run.measured.role_name
    note = (
        f"Each row is a {role_name} or, once a {role_name} is chosen, one of its groups that recur; each column is an "
        "update. Blue is above 0, red or orange below; a grey cell had no such group."
    )
    options = {"full": True, "heat": True, "row": _ROW_PX, "margins": _MARGINS_PX}
    return make_chart("groups-map", "groups", "Heat map by group", "", traces, note, **options)


def _map(buckets: Sequence[Bucket], rows: Rows, role: str, name: str, label: str, unit: str, signed: bool) -> Trace:
    order = list(rows)[::-1]  # Plotly's axis grows upwards
    newest = [(text, next((value for value in reversed(rows[text]) if value is not None), None)) for text in rows]
    said = [f"{text} {number(value)}" for text, value in newest if value is not None]
    return {
        "type": "heatmap", "x": [bucket.last for bucket in buckets], "y": order,
        "z": [list(rows[text]) for text in order], "name": label, "when": {"role": role, "value": name},
        "hoverongaps": False, "colorscale": _AROUND_ZERO if signed else _RISING,
        **({"zmid": 0} if signed else {"zmin": 0}),
        "colorbar": {"title": {"text": unit, "side": "right"}, "thickness": 12, "outlinewidth": 0},
        "say": f"{label}, newest: {', '.join(said)}",
        "hovertemplate": f"%{{y}}, update %{{x}}<br>{label} %{{z:.3g}}<extra></extra>",
    }  # fmt: skip


def _mean_advantage(bucket: Bucket, role: str) -> float | None:
    found = [audit.distributions.advantages.roles.get(role) for audit in bucket.audits if audit.distributions]
    known = [(each.mean, each.count) for each in found if each is not None and each.mean is not None]
    samples = sum(count for _, count in known)
    return sum(mean * count for mean, count in known) / samples if samples else None


def labelled(groups: Mapping[tuple[str, str], Sequence[Figures]]) -> dict[str, Sequence[Figures]]:
    """Return a role's groups by a text that tells them apart: with their level unless it is that of the first one."""
    usual = next((level for level, _ in groups), "")
    return {html.escape(text if level == usual else f"{text} ({level})"): row for (level, text), row in groups.items()}


def _convergence(
    run: RunData,
    buckets: Sequence[Bucket],
    roles: Mapping[str, Sequence[Figures]],
    groups: Mapping[str, Mapping[tuple[str, str], Sequence[Figures]]],
) -> list[Chart]:
    notes = {
        "mean": "Mean return of the groups' samples; rising lines are learning.",
        "std": "Standard deviation of returns within a group; near 0 its samples are alike and teach little.",
    }
    made = []
    for name, label, unit, value, _ in VALUES[:2]:
        traces = []
        for role in _ordered(run, roles):
            color = line_color(role, run.measured.roles) or OTHER
            traces.append(_course(buckets, roles[role], value, _label(role), color, {"role": ""}))
            several = list(_largest(labelled(groups.get(role, {}))).items()) or [(_label(role), roles[role])]
            for place, (text, rows) in enumerate(several):
                traces.append(_course(buckets, rows, value, text, SERIES[place % len(SERIES)], {"role": role}))
        title = "Convergence: mean return" if name == "mean" else "Convergence: deviation within groups"
        role_name = run.measured.role_name
        note = (
            f"{notes[name]} One line for each {role_name} or, once a {role_name} is chosen, for its groups that "
            f"recur (at most {MOST_LINES}): moving averages over {smoothing_width(len(buckets))} points."
        )
        options = {"legend": True, "zero": name == "std"}
        made.append(make_chart(f"groups-{label.split()[0]}", "groups", title, unit, traces, note, **options))
    return made


def _largest(rows: Mapping[str, Sequence[Figures]]) -> dict[str, Sequence[Figures]]:
    """The groups that judged most samples, in their order."""
    counts = {text: sum(row.judged for row in rows[text]) for text in rows}
    chosen = sorted(rows, key=lambda text: -counts[text])[:MOST_LINES]
    return {text: rows[text] for text in rows if text in chosen}


def _course(
    buckets: Sequence[Bucket],
    rows: Sequence[Figures],
    value: Callable[[Figures], float | None],
    name: str,
    color: str,
    when: Mapping[str, str],
) -> Trace:
    points = [(bucket.last, value(row)) for bucket, row in zip(buckets, rows, strict=True)]
    known = [(x, y) for x, y in points if y is not None]
    return smooth_line(([x for x, _ in known], [y for _, y in known]), name, color, when=dict(when))


def _ordered(run: RunData, roles: Mapping[str, Any]) -> list[str]:
    known = [role for role in run.measured.roles if role in roles]
    return known + [role for role in roles if role not in known]


def _label(role: str) -> str:
    return html.escape(role_label(role))


def weight_charts(run: RunData, buckets: Sequence[Bucket]) -> list[Chart]:
    """Return the groups' weights, and each role's share of the update, stacked."""
    return [_weights(run, buckets), _shares(run, buckets)]


def _weights(run: RunData, buckets: Sequence[Bucket]) -> Chart:
    means: dict[str, list[float]] = {}
    for place, bucket in enumerate(buckets):
        for name in {name for audit in bucket.audits for name in audit.group_weights}:
            found = [weight for audit in bucket.audits if (weight := audit.group_weights.get(name)) is not None]
            if found:
                means.setdefault(name, [0.0] * len(buckets))[place] = fmean(found)
    largest = sorted(means, key=lambda name: -sum(means[name]))[:MOST_WEIGHTS]
    rest = [name for name in means if name not in largest]
    order = sorted(largest, key=lambda name: (_place(run, name), name))
    stacks = {name: means[name] for name in order}
    if rest:
        stacks[f"{len(rest)} others"] = [sum(values) for values in zip(*(means[name] for name in rest), strict=True)]
    note = "The factor on the advantages of each group; a thicker band counts more, and equal bands are equal weights."
    return make_chart(
        "weights-groups", "weights", "Group weights", "weight, stacked", _stack(run, buckets, stacks), note,
        legend=True, stacked=True,
    )  # fmt: skip


def _place(run: RunData, name: str) -> int:
    return run.measured.roles.index(name) if name in run.measured.roles else len(run.measured.roles)


def _shares(run: RunData, buckets: Sequence[Bucket]) -> Chart:
    sums: list[dict[str, float]] = []
    for bucket in buckets:
        row: dict[str, float] = {}
        for audit in bucket.audits:
            spreads = audit.distributions.advantages.roles if audit.distributions else {}
            for role, spread in spreads.items():
                row[role] = row.get(role, 0.0) + spread.count * (spread.mean_abs or 0.0)
        sums.append(row)
    stacks = {}
    for role in _ordered(run, {role: None for row in sums for role in row}):
        stacks[role] = [row.get(role, 0.0) / whole if (whole := sum(row.values())) else 0.0 for row in sums]
    role_name = run.measured.role_name
    note = f"Each {role_name}'s part of the sum of absolute advantages: how much it pulls on the policy."
    return make_chart(
        "weights-shares", "weights", "Share of the update", "share, stacked", _stack(run, buckets, stacks), note,
        legend=True, stacked=True,
    )  # fmt: skip


def _stack(run: RunData, buckets: Sequence[Bucket], stacks: Mapping[str, Sequence[float]]) -> list[Trace]:
    traces = []
    xs = [bucket.last for bucket in buckets]
    for place, (name, values) in enumerate(stacks.items()):
        color = line_color(name, run.measured.roles) or SERIES[place % len(SERIES)]
        bars = {"type": "bar", "x": xs, "y": list(values), "name": _label(name), "marker": {"color": color}}
        traces.append({**bars, "say": course(_label(name), (xs, values))})
    return traces if any(any(values) for values in stacks.values()) else []
