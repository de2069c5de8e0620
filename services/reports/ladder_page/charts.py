"""Two drawings in plain HTML and CSS, legible at any width: intervals on an axis, and bars of shares."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

TICKS = 5  # about so many on an axis


@dataclass(frozen=True, slots=True)
class Mark:
    """A point on the axis with its interval; None: it has none."""

    name: str
    value: float
    interval: tuple[float, float] | None
    text: str  # beside it


@dataclass(frozen=True, slots=True)
class Bar:
    """Shares of games, which sum to 1 at most; what is left is not known."""

    name: str
    shares: tuple[float, ...]  # in the order of the legend


def interval_chart(marks: Sequence[Mark], said: str) -> str:
    """A row for each mark; ``said`` is the alternative text."""
    ends = [end for mark in marks for end in (mark.value, *(mark.interval or ()))]
    ticks = nice_ticks(min(ends), max(ends))
    low, high = ticks[0], ticks[-1]

    def place(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.2f}%"

    lines = "".join(f'<i class="line" style="left:{place(tick)}"></i>' for tick in ticks)
    rows = []
    for mark in marks:
        whisker = ""
        if mark.interval is not None:
            first, last = mark.interval
            width = f"{100 * (last - first) / (high - low):.2f}%"
            whisker = f'<i class="whisker" style="left:{place(first)};width:{width}"></i>'
        track = f'<span class="track">{lines}{whisker}<i class="dot" style="left:{place(mark.value)}"></i></span>'
        rows.append(_row(mark.name, track, mark.text))
    labels = "".join(f'<span style="left:{place(tick)}">{_tick_text(tick, ticks)}</span>' for tick in ticks)
    axis = f'<div class="row axis"><span></span><span class="track">{labels}</span><span></span></div>'
    return f'<div class="chart" role="img" aria-label="{html.escape(said)}">{"".join(rows)}{axis}</div>'


def share_chart(bars: Sequence[Bar], legend: Sequence[str], said: str) -> str:
    """A bar for each row; parts have the classes ``part0``, ``part1`` and so on, in the order of ``legend``."""
    keys = "".join(
        f'<li><i class="swatch part{number}"></i>{html.escape(name)}</li>' for number, name in enumerate(legend)
    )
    rows = []
    for bar in bars:
        parts = "".join(
            f'<i class="part{number}" style="width:{100 * share:.2f}%"></i>'
            for number, share in enumerate(bar.shares)
            if share > 0
        )
        rows.append(_row(bar.name, f'<span class="bar">{parts}</span>', ""))
    chart = f'<div class="chart bars" role="img" aria-label="{html.escape(said)}">{"".join(rows)}</div>'
    return f'<ul class="legend">{keys}</ul>{chart}'


def nice_ticks(low: float, high: float) -> list[float]:
    """About ``TICKS`` round numbers, the first at most ``low`` and the last at least ``high``."""
    span = high - low or max(abs(high), 1.0)
    raw = span / TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw)
    first, last = math.floor(low / step), math.ceil(high / step)
    last = last if last > first else first + 1
    return [number * step for number in range(first, last + 1)]


def _tick_text(tick: float, ticks: Sequence[float]) -> str:
    """A tick with as many decimal places as tell all of them exactly."""
    places = next(places for places in range(9) if all(abs(each - round(each, places)) < 1e-9 for each in ticks))
    return f"{tick:.{places}f}"


def _row(name: str, drawing: str, text: str) -> str:
    shown = html.escape(name)
    return (
        f'<div class="row"><span class="name" title="{shown}">{shown}</span>{drawing}'
        f'<span class="figure">{html.escape(text)}</span></div>'
    )
