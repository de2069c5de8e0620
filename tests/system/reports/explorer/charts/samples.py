"""Charts with values of every kind, plain and hostile, and how a page shows them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from playwright.sync_api import FloatRect, Locator, Page

Chart = dict[str, Any]  # the name of its function, and its options
Show = Callable[..., AbstractContextManager[Page]]
LAPTOP = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}
WIDE = {"width": 1600, "height": 900}
COLORS = [f"var(--line-{name})" for name in ("FRANCE", "TURKEY", "ITALY", "ENGLAND", "RUSSIA", "AUSTRIA", "GERMANY")]
SHAPES = ["circle", "square", "triangle", "diamond", "cross", "plus", "triangle_down", "star"]
EVIL = "<img src=x onerror=alert(1)> " + "a very long name " * 20
# Each chart in a figure; ``calls`` has what the charts reported.
MOUNT = """"use strict";
const calls = [];
const built = [];
for (const { name, options } of JSON.parse(document.getElementById("data").textContent).charts) {
  const report = (...values) => calls.push([name, ...values]);
  built.push(window[name]({ ...options, onSelect: report, onBoundary: report }));
  document.querySelector("main").append(figureOf({
    title: name, note: "A sentence.", chart: built.at(-1).node ?? built.at(-1), label: `${name} with its main figures.`,
    table: { head: ["name", "value"], rows: [["first", 1234.5], ["second", null]] },
  }));
}
"""


def chart(name: str, **options: Any) -> Chart:
    return {"name": name, "options": options}


def line(values: Sequence[float | None], name: str = "France", place: int = 0) -> dict[str, Any]:
    return {"name": name, "values": values, "color": COLORS[place % 7]}


def points(count: int) -> list[dict[str, Any]]:
    """Dots in three groups by their x; a fixed sequence that looks random."""
    made = []
    for place in range(count):
        x, noise = (place * 0.618034) % 1 * 34, (place * 0.414214) % 1
        look = {"color": COLORS[place % 7], "shape": SHAPES[place % 8], "size": 8}
        where = {"x": x, "y": x / 6 + 4 * noise, "group": ("early", "middle", "late")[min(2, int(x / 12))]}
        made.append({"id": f"dot {place}", "label": f"Episode {place}", **look, **where})
    return made


def dots(count: int = 60, **options: Any) -> Chart:
    groups = [{"name": name, "mean": mean, "note": "n"} for name, mean in (("early", 2), ("middle", 4), ("late", 6))]
    titles = {"xTitle": "own centres", "yTitle": "return"}
    base = {"points": points(count), "layout": "scatter", "groups": groups, "boundaries": [12, 24], **titles}
    return chart("dotField", **{**base, **options})


def all_charts() -> list[Chart]:
    waves = [[math.sin(step / 9 + place) + place for step in range(200)] for place in range(4)]
    axis = {"xTitle": "update", "yTitle": "centres"}
    lines = [line([*wave[:20], None, *wave[21:]], f"Line {place}", place) for place, wave in enumerate(waves)]
    band = {"low": [v - 1 for v in waves[0]], "high": [v + 1 for v in waves[0]]}
    panels = [line(wave, f"Panel {place}", place) for place, wave in enumerate(waves)]
    groups = [{**line([*wave, 9], f"Group {place}", place), "selected": place == 1} for place, wave in enumerate(waves)]
    squares = [[None if row == column else row - column * 0.37 for column in range(7)] for row in range(7)]
    names = [f"Country {place}" for place in range(7)]
    items = [{"name": names[place], "value": place - 2.5, "color": COLORS[place]} for place in range(6)]
    spokes = [{"name": f"Measure {place}", "low": 0, "high": 5} for place in range(6)]
    return [
        chart("lineChart", x=list(range(200)), series=lines, band=band, selected=50, **axis),
        chart(
            "stackedAreas", x=list(range(1901, 1921)), series=[line([3 + p] * 20, "Area", p) for p in range(4)], **axis
        ),
        chart("histograms", panels=panels[:1], xTitle="reward", bins=10),
        chart("histograms", panels=panels[:2], xTitle="reward"),
        chart("histograms", panels=panels, xTitle="reward"),
        chart("boxPlots", groups=groups, yTitle="centres"),
        chart("heatMap", rows=names, columns=names, values=squares, xTitle="to", yTitle="from", symmetric=True),
        chart("bars", items=[*items, {**items[0], "name": "with interval", "interval": [-4, 1]}], unit="centres"),
        chart(
            "radar", axes=spokes, series=[line([place, 2, 3, None, 4, 1], f"S {place}", place) for place in range(3)]
        ),
        dots(),
        dots(layout="groups"),
    ]


def hostile_charts(values: list[float | None], name: str) -> list[Chart]:
    """Every chart with the same few values and one name everywhere."""
    places, titles = list(range(len(values))), {"xTitle": name, "yTitle": name}
    series = [line(values, name), line(values, name, 1)]
    known = [value for value in values if value is not None]
    spots = [
        {"id": place, "x": value, "y": value, "color": COLORS[0], "shape": "star", "label": name, "group": name}
        for place, value in enumerate(values)
    ]
    column = {"points": spots, "groups": [{"name": name, "mean": known[0] if known else None, "note": name}]}
    limits = {"low": min(known, default=0), "high": max(known, default=0)}
    return [
        chart("lineChart", x=places, series=series, band={"low": values, "high": values}, selected=0, **titles),
        chart("stackedAreas", x=places, series=series, selected=0, **titles),
        *(chart("histograms", panels=(series * 2)[:count], xTitle=name) for count in (1, 2, 3)),
        chart("boxPlots", groups=[{**one, "selected": True} for one in series], yTitle=name),
        *(
            chart(
                "heatMap", rows=[name] * 2, columns=[name] * len(values), values=[values] * 2, symmetric=even, **titles
            )
            for even in (True, False)
        ),
        chart(
            "bars",
            items=[{"name": name, "value": v, "color": COLORS[0], "interval": [v or 0, 0]} for v in values],
            unit=name,
        ),
        chart("radar", axes=[{"name": name, **limits} for _ in values], series=series),
        *(
            chart("dotField", layout=layout, boundaries=known[:1], **column, **titles)
            for layout in ("scatter", "groups")
        ),
    ]


def box_of(node: Locator) -> FloatRect:
    box = node.bounding_box()
    assert box is not None
    return box


def calls(visited: Page) -> list[list[Any]]:
    return [call[1:] for call in visited.evaluate("calls")]


def dot_places(visited: Page) -> list[tuple[float, float]]:
    """The places of the dots that are shown, in pixels of the drawing."""
    script = "nodes => nodes.map(({ transform }) => transform.baseVal.getItem(0).matrix).map(({ e, f }) => [e, f])"
    return [(x, y) for x, y in visited.locator(".chart-dot:visible").evaluate_all(script)]


def rest(visited: Page) -> list[tuple[float, float]]:
    """Wait until the dots stand still: two frames after the time of their glide."""
    visited.evaluate(
        """() => new Promise((done) => {
          const start = performance.now();
          const wait = () => {
            if (performance.now() - start > GLIDE_MS) requestAnimationFrame(() => requestAnimationFrame(done));
            else requestAnimationFrame(wait);
          };
          wait();
        })"""
    )
    return dot_places(visited)
