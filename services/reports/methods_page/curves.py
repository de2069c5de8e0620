"""Lines of a figure over steps or games, drawn as SVG: one for each method."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from services.reports.ladder_page.charts import nice_ticks

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 760, 260, 56, 24, 10, 48
_HUES = 8
_DASHES = ("", "6 3", "2 3")


def curves(courses: Mapping[str, Sequence[tuple[float, float]]], titles: Mapping[str, str], unit: str) -> str:
    """Steps or games (``unit``) to the right, the figure upwards; ``courses`` are by method."""
    steps = [step for course in courses.values() for step, _ in course]
    values = [value for course in courses.values() for _, value in course]
    across, upwards = nice_ticks(0.0, max(steps)), nice_ticks(min(values), max(values))

    def x(step: float) -> float:
        return _LEFT + (step / across[-1]) * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _TOP + (upwards[-1] - value) / (upwards[-1] - upwards[0]) * (_HEIGHT - _TOP - _BOTTOM)

    lines = "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        for tick in upwards
    )
    labels = "".join(
        f'<text x="{x(tick):.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{tick:,.0f}'
        f"{f' {unit}' if tick == across[-1] else ''}</text>"
        for tick in across
    )
    drawn, names = [], []
    for number, (method, course) in enumerate(courses.items()):
        hue, dash = f"hsl({number % _HUES * 360 // _HUES + 10} 65% 45%)", _DASHES[number // _HUES % len(_DASHES)]
        points = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in course)
        title = html.escape(titles[method])
        drawn.append(
            f'<polyline points="{points}" stroke="{hue}" stroke-dasharray="{dash}"><title>{title}</title></polyline>'
        )
        style = "dashed" if dash else "solid"
        names.append(f'<li><i style="border-color:{hue};border-top-style:{style}"></i>{title}</li>')
    return (
        f'<ul class="curve-names">{"".join(names)}</ul>'
        f'<svg class="curves" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Course over {unit}">'
        f"{lines}{labels}{''.join(drawn)}</svg>"
    )
