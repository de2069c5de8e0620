"""The charts of returns and advantages: box plots, and histograms of all samples against those of a role."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from grpo_core.types import role_label
from services.reports.colors import line_color
from services.reports.run_report.charts.chart import OTHER, Chart, Trace, box, make_chart, number, thinned
from services.reports.run_report.data import RunData
from services.reports.run_report.groups.buckets import Bucket
from services.reports.run_report.groups.histograms import Histogram, common_width, pooled
from services.reports.run_report.schema import Audit, Spread, Spreads

MOST_BOXES = 40  # beside one another
_BOXES = (
    "The box holds the middle half of the samples, the line in it is the median, the dashed one the mean; "
    "whiskers end at 5% and 95%."
)
_SIDES = (
    (
        "returns",
        "Returns: before normalisation",
        "return",
        "Grey: the returns of all samples; in colour: those of the chosen {role}. Two hills that lie apart are a "
        "difference that one baseline for all would take for skill.",
    ),
    (
        "advantages",
        "Advantages: after normalisation",
        "advantage",
        "The same samples after their group's baseline and scale; both hills should lie around 0.",
    ),
)


def advantage_charts(run: RunData, buckets: Sequence[Bucket]) -> list[Chart]:
    """Return the charts of the section; empty where no record has distributions."""
    recorded = [bucket for bucket in buckets if _recorded(bucket)]
    if not recorded:
        return []
    return [_boxes_by_role(run, recorded), _boxes_by_update(run, recorded), *_histograms(run, recorded)]


def frames(buckets: Sequence[Bucket]) -> list[tuple[str, str]]:
    """Return the choices of the updates' slider: value and label."""
    return [(str(bucket.last), bucket.label) for bucket in buckets if _recorded(bucket)]


def _recorded(bucket: Bucket) -> list[Audit]:
    return [audit for audit in bucket.audits if audit.distributions is not None]


def _roles(run: RunData, buckets: Sequence[Bucket]) -> list[str]:
    found = {role for bucket in buckets for spreads in _spreads(bucket, "advantages") for role in spreads.roles}
    known = [role for role in run.measured.roles if role in found]
    return known + sorted(found.difference(known))


def _spreads(bucket: Bucket, side: str) -> list[Spreads]:
    return [getattr(audit.distributions, side) for audit in _recorded(bucket)]


def _newest(bucket: Bucket, role: str | None) -> Spread | None:
    """The distribution of a bucket's newest update; None where the role has none, or a figure is missing."""
    newest = _spreads(bucket, "advantages")[-1]
    found = newest.all if role is None else newest.roles.get(role)
    return None if found is None or None in (found.mean, *found.quantiles) else found


def _as_row(spread: Spread) -> dict[str, object]:
    return {"quantiles": spread.quantiles, "mean": spread.mean}


def _said(name: str, spread: Spread) -> str:
    _, _, first, median, third, _, _ = (value or 0.0 for value in spread.quantiles)
    return f"{name}: median {number(median)}, middle half from {number(first)} to {number(third)}"


def _boxes_by_role(run: RunData, buckets: Sequence[Bucket]) -> Chart:
    traces = []
    roles = _roles(run, buckets)
    for bucket in buckets:
        known = [(role, found) for role in roles if (found := _newest(bucket, role)) is not None]
        for place, (role, found) in enumerate(known):
            name, color = _label(role), line_color(role, run.measured.roles) or OTHER
            said = _said(name, found) if place else f"update {bucket.last}, {_said(name, found)}"
            more = {"when": {"frame": str(bucket.last)}, "say": said}
            traces.append(box([name], [_as_row(found)], name, color, **more))
    note = f"{_BOXES} A {run.measured.role_name} whose box is flat learns little in this update."
    ends = [end for trace in traces for end in (*trace["lowerfence"], *trace["upperfence"])]
    options = {"category": True, "boxes": True, "range": _wider(min(ends), max(ends)) if ends else None}
    title = f"Advantages by {run.measured.role_name}"
    return make_chart("advantages-roles", "advantages", title, "advantage", traces, note, **options)


def _boxes_by_update(run: RunData, buckets: Sequence[Bucket]) -> Chart:
    traces = []
    chosen = thinned(buckets, MOST_BOXES)
    for role in (None, *_roles(run, buckets)):
        found = [(bucket.last, spread) for bucket in chosen if (spread := _newest(bucket, role)) is not None]
        if not found:
            continue
        name = "all samples" if role is None else _label(role)
        color = "@ink" if role is None else line_color(role, run.measured.roles) or OTHER
        more = {"when": {"role": role or ""}, "say": f"update {found[-1][0]}, {_said(name, found[-1][1])}"}
        traces.append(box([x for x, _ in found], [_as_row(spread) for _, spread in found], name, color, **more))
    note = f"One box for an update, of all samples or those of the chosen {run.measured.role_name}. {_BOXES}"
    options = {"boxes": True}
    return make_chart(
        "advantages-updates", "advantages", "Advantages over updates", "advantage", traces, note, **options
    )


def _histograms(run: RunData, buckets: Sequence[Bucket]) -> Iterator[Chart]:
    for side, title, unit, note in _SIDES:
        width = common_width(spreads for bucket in buckets for spreads in _spreads(bucket, side))
        traces: list[Trace] = []
        for bucket in buckets if width is not None else []:
            records = _spreads(bucket, side)
            for role in (None, *_roles(run, buckets)):
                found = pooled(records, width or 1.0, role)
                if found is not None:
                    traces.append(_bars(run, found, role, bucket))
        options = {"overlay": True, "x": unit, "bins": True, **_limits(traces)}
        told = note.format(role=run.measured.role_name)
        yield make_chart(f"histogram-{side}", "advantages", title, "share of samples", traces, told, **options)


def _limits(traces: Sequence[Trace]) -> dict[str, list[float]]:
    """An axis of values that stays where it is while the updates change."""
    if not traces:
        return {}
    low = min(trace["x0"] - trace["width"] / 2 for trace in traces)
    high = max(trace["x0"] + trace["width"] * (len(trace["y"]) - 0.5) for trace in traces)
    return {"xrange": _wider(low, high)}


def _wider(low: float, high: float) -> list[float]:
    room = 0.04 * (high - low) or 1.0
    return [low - room, high + room]


def _bars(run: RunData, found: Histogram, role: str | None, bucket: Bucket) -> Trace:
    color = OTHER if role is None else line_color(role, run.measured.roles) or OTHER
    name = "all samples" if role is None else _label(role)
    top = max(range(len(found.shares)), key=lambda i: found.shares[i])
    low = (found.first + top) * found.width
    said = (
        f"{name}: {found.samples} samples, mean {number(found.mean)}, most often from {number(low)} to "
        f"{number(low + found.width)}"
    )
    said = f"{bucket.label}, {said}" if role is None else said
    when = {"frame": str(bucket.last)} | ({} if role is None else {"role": role})
    return {
        "type": "bar", "x0": (found.first + 0.5) * found.width, "dx": found.width, "width": found.width,
        "y": list(found.shares), "name": name, "when": when, "say": said,
        "marker": {"color": color, "opacity": 0.45 if role is None else 0.75, "line": {"width": 0}},
        "hovertemplate": "%{x:.3g}: %{y:.1%}<extra></extra>",
    }  # fmt: skip


def _label(role: str) -> str:
    return html.escape(role_label(role))
