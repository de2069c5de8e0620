"""What a chart is made of: plain Plotly traces; ``@name`` is a colour of the page, light or dark.

Besides Plotly's attributes a trace may have three of ours, which the page takes away before it draws:

- ``say``: the trace's main figure in words, for the text that a screen reader reads;
- ``when``: values of controls (``{"role": "FRANCE"}``) under which the trace is shown; without it, always;
- ``table``: False where the trace is no column of the chart's table.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, TypeVar
from urllib.parse import unquote

from services.reports.colors import SERIES
from services.reports.run_report.data import Points

OTHER = "@muted"  # roles that the world does not have
MOST_POINTS = 400  # of a line; a longer one is thinned after it was smoothed

MOST_COLUMNS = 100  # of bars, of a heat map, and steps of a slider; neighbours are put together

Chart = dict[str, Any]  # id, section, title, note, y (axis title), traces, and options of the layout
Trace = dict[str, Any]
Item = TypeVar("Item")


def make_chart(name: str, section: str, title: str, y: str, traces: list[Trace], note: str, **more: Any) -> Chart:
    """Return a chart; ``note`` is one sentence that says what it shows and how to read it."""
    return {"id": name, "section": section, "title": title, "y": y, "note": note, "traces": traces, **more}


def has_data(chart: Chart) -> bool:
    """Whether any trace has a value."""
    return any(trace.get("y") or trace.get("median") for trace in chart["traces"])


def smooth(values: Sequence[float], width: int) -> list[float]:
    """Return the centred moving average over ``width`` (odd) values, fewer at the ends."""
    half = width // 2
    return [fmean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]


def smoothing_width(count: int) -> int:
    """Return the width of the moving average: about a tenth of the points, odd, at least 3."""
    return max(3, round(count / 10) | 1)


def thinning(count: int, most: int = MOST_POINTS) -> int:
    """Return k where every k-th of ``count`` points is kept, so that at most ``most`` are and the last is."""
    return max(1, -(-count // most))


def thinned(values: Sequence[Item], most: int = MOST_POINTS) -> list[Item]:
    """Return every k-th value up to the last one, at most ``most``."""
    step = thinning(len(values), most)
    return list(values[(len(values) - 1) % step :: step]) if values else []


def slices(count: int, most: int) -> list[slice]:
    """Cut ``count`` neighbours into at most ``most`` parts of equal length; the first may be shorter."""
    size = max(1, -(-count // most))
    return [slice(max(0, end - size), end) for end in range(count, 0, -size)][::-1]


def averaged(points: Points, most: int = MOST_COLUMNS) -> Points:
    """Return the means of neighbouring points, each at its last place, so that at most ``most`` are left."""
    xs, ys = points
    parts = slices(len(xs), most)
    return [xs[part][-1] for part in parts], [fmean(ys[part]) for part in parts]


def shown(label: str) -> str:
    """Return a label of a metric's key as Plotly shows it, which takes some HTML in names for formatting."""
    return html.escape(unquote(label))


def number(value: float) -> str:
    """Return a figure in words: three digits that count, without an exponent where it is readable."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:.2g}"


def course(name: str, points: tuple[Sequence[float], Sequence[float]], *, at: str = "update") -> str:
    """Say how a line goes: its first and its last value; ``at`` is what its places are."""
    xs, ys = points
    if not ys:
        return f"{name}: no data"
    if len(ys) == 1:
        return f"{name}: {number(ys[0])} in {at} {xs[0]:g}"
    return f"{name}: {number(ys[0])} in {at} {xs[0]:g}, {number(ys[-1])} in {at} {xs[-1]:g}"


def scatter(points: Points, name: str, mode: str, **more: Any) -> Trace:
    """Return points or a line."""
    return {"type": "scatter", "mode": mode, "x": list(points[0]), "y": list(points[1]), "name": name, **more}


def line(points: Points, name: str, color: str, **more: Any) -> Trace:
    """Return a line, thinned where it has many points."""
    few = thinned(points[0]), thinned(points[1])
    return scatter(few, name, "lines", line={"color": color, "width": 2}, say=course(name, points), **more)


def smooth_line(points: Points, name: str, color: str, **more: Any) -> Trace:
    """Return the moving average as a line."""
    xs, ys = points
    return line((xs, smooth(ys, smoothing_width(len(ys)))), name, color, **more)


def raw_and_smooth(points: Points, name: str, color: str = SERIES[0]) -> list[Trace]:
    """Return single updates as faint points, and their moving average as a line."""
    few, marker = (thinned(points[0]), thinned(points[1])), {"color": color, "size": 4, "opacity": 0.35}
    raw = scatter(few, f"{name}, one update", "markers", marker=marker)
    return [raw, smooth_line(points, name, color)]


def box(places: Iterable[Any], rows: Sequence[Mapping[str, Any]], name: str, color: str, **more: Any) -> Trace:
    """Return box plots at ``places`` of rows with ``quantiles`` (0, 5, 25, 50, 75, 95 and 100 %) and ``mean``.

    The box is the middle half, the line in it the median, the dotted one the mean; whiskers end at 5 and 95 %.
    """
    quantiles = [row["quantiles"] for row in rows]
    _, low, first, median, third, high, _ = zip(*quantiles, strict=True) if quantiles else ((),) * 7
    return {
        "type": "box", "x": list(places), "name": name, "lowerfence": list(low), "q1": list(first),
        "median": list(median), "q3": list(third), "upperfence": list(high), "mean": [row["mean"] for row in rows],
        "boxmean": True, "line": {"color": color, "width": 1.4}, "fillcolor": "rgba(127,127,127,.15)", **more,
    }  # fmt: skip


def rounded(value: Any) -> Any:
    """Return plain data with floats of five digits that count: what a picture shows, in a third of the bytes."""
    if isinstance(value, float):
        short = float(f"{value:.5g}")
        return int(short) if short.is_integer() and abs(short) < 1e15 else short
    if isinstance(value, Mapping):
        return {name: rounded(item) for name, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value


def words(chart: Chart, chosen: Mapping[str, str]) -> str:
    """Return a chart's text for screen readers under the chosen values of the controls."""
    said = [trace["say"] for trace in chart["traces"] if "say" in trace and applies(trace, chosen)]
    return html.unescape(f"{chart['title']}. {'; '.join(said)}".strip("; "))


def applies(trace: Trace, chosen: Mapping[str, str]) -> bool:
    """Whether a trace is shown under the chosen values of the controls."""
    return all(chosen.get(name) == value for name, value in trace.get("when", {}).items())
