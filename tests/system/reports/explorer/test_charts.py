"""The explorer's charts in a real Chromium, offline: ordinary and hostile data, pointer, keys and touch."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, FloatRect, Locator, Page, expect

from services.reports.colors import country_styles
from services.reports.explorer.explorer import chart_scripts
from services.reports.page import asset, page

pytestmark = pytest.mark.system

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


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Show:
    """Open a page of charts; whatever the browser reports or asks for fails the test."""

    @contextmanager
    def opened(charts: list[Chart], viewport: dict[str, int] = LAPTOP, **context: Any) -> Iterator[Page]:
        layout = "main { display: grid; gap: 12px; padding: 12px; grid-template-columns: minmax(0, 1fr); }"
        styles = "\n".join([asset("common.css"), country_styles(), asset("explorer/charts.css"), layout])
        file = tmp_path / "charts.html"
        body = page(
            "Charts", "<main></main>", styles=styles, data={"charts": charts}, scripts=[*chart_scripts(), MOUNT]
        )
        file.write_text(body)
        problems: list[str] = []
        tab = browser.new_context(viewport=viewport, offline=True, **context)  # type: ignore[arg-type]
        visited = tab.new_page()
        visited.on("console", lambda message: problems.append(message.text))
        visited.on("pageerror", lambda error: problems.append(str(error)))
        visited.on("request", lambda request: problems.append(request.url) if request.url != file.as_uri() else None)
        visited.goto(file.as_uri())
        expect(visited.locator(".chart-svg[viewBox]")).to_have_count(len(charts))
        yield visited
        tab.close()
        assert [problem for problem in problems if not problem.startswith("data:")] == []

    return opened


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


def test_ticks_scales_and_numbers(show: Show) -> None:
    with show([]) as visited:
        assert visited.evaluate("niceTicks(0, 10, 5)") == [0, 2, 4, 6, 8, 10]
        assert visited.evaluate("niceTicks(-0.3, 0.31, 7)") == [-0.3, -0.2, -0.1, 0, 0.1, 0.2, 0.3]
        assert visited.evaluate("niceTicks(7, 7, 5)") == [7]
        assert visited.evaluate("tickLabels(niceTicks(1901, 1906, 5))") == [
            "1901",
            "1902",
            "1903",
            "1904",
            "1905",
            "1906",
        ]
        assert visited.evaluate("tickLabels([1.0001, 1.0002])") == ["1.0001", "1.0002"]
        assert visited.evaluate("linearScale([0, 4], [10, 50])(1)") == 20
        assert visited.evaluate("linearScale([0, 4], [10, 50]).invert(20)") == 1
        assert visited.evaluate("linearScale([3, 3], [10, 50])(3)") == 30
        numbers = "[0, 1234567.8, -1234.5, 12.3456, -0.12345, 0.00001234, 2e20, null, 999.96, -0].map(formatNumber)"
        texts = ["0", "1,234,568", "−1,235", "12.35", "−0.123", "1.23e−5", "2.00e20", "–", "1,000", "0"]
        assert visited.evaluate(numbers) == texts


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE, WIDE], ids=["laptop", "phone", "wide"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_fits_its_page_and_is_readable(show: Show, viewport: dict[str, int], scheme: str) -> None:
    with show(all_charts(), viewport, color_scheme=scheme) as visited:
        assert visited.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        assert min(visited.locator(".chart text, .chart li").evaluate_all(SHOWN_SIZES)) >= 11
        assert visited.locator(".chart-svg text").evaluate_all(OVERHANGING) == [], "no text sticks out of its chart"
        colors = visited.locator("figure").nth(0).locator(".chart-svg .chart-line").evaluate_all(STROKES)
        assert len(colors) == len({dash for _, dash in colors}) == 4, "a dash besides the colour"
        labels = visited.locator("[role=img][aria-label$='with its main figures.']")
        assert labels.count() == len(all_charts())
        assert visited.locator(".chart-drawing [tabindex]").count() == 0, "nothing inside an image takes the focus"


SHOWN_SIZES = """nodes => nodes.map(node => {
  const svg = node.closest(".chart-svg");
  const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
  return parseFloat(getComputedStyle(node).fontSize) * scale;
})"""
OVERHANGING = """nodes => nodes.map(node => {
  const [text, chart] = [node, node.closest(".chart-svg")].map(each => each.getBoundingClientRect());
  const over = [chart.left - text.left, text.right - chart.right, chart.top - text.top, text.bottom - chart.bottom];
  return [Math.max(...over), node.closest(".chart").dataset.chart, node.getAttribute("class"), node.textContent];
}).filter(([over]) => over > 1)"""
STROKES = "nodes => nodes.map(node => [getComputedStyle(node).stroke, node.getAttribute('stroke-dasharray')])"


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize(
    "values",
    [
        [],
        [None, None],
        [3.0],
        [0.0] * 5,
        [7.5] * 40,
        [None, 1.0, None, 2.0],
        [-1e300, 1e300],
        [1e-12, 2e-12],
        [1e9, 1e9 + 1],
    ],
    ids=["none", "nulls", "one", "zeros", "equal", "gaps", "huge", "tiny", "close"],
)
def test_hostile_values_and_names_are_drawn(show: Show, values: list[float | None], viewport: dict[str, int]) -> None:
    with show([*hostile_charts(values, EVIL), *hostile_charts(values, "")], viewport) as visited:
        assert visited.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        html = visited.locator("main").evaluate("main => main.outerHTML")
        assert re.findall(r"NaN|Infinity|undefined", html) == []
        assert visited.locator("img").count() == 0, "names are text"
        assert visited.locator(".chart-svg text").evaluate_all(OVERHANGING) == []
        for reader in visited.locator(".chart-reader").all():
            reader.focus()
            visited.keyboard.press("ArrowRight")
        assert visited.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_a_cut_name_is_whole_in_its_title(show: Show) -> None:
    with show([chart("bars", items=[{"name": EVIL, "value": 1, "color": COLORS[0]}], unit="")]) as visited:
        text = visited.locator(".chart-name")
        assert text.evaluate("text => text.firstChild.data").endswith("…")
        assert text.locator("title").text_content() == EVIL
        assert visited.locator("[role=button]").get_attribute("aria-label") == f"{EVIL}: 1"


def test_a_table_is_made_when_it_is_opened(show: Show) -> None:
    with show([all_charts()[0]]) as visited:
        assert visited.locator("table").count() == 0
        for _ in range(3):
            visited.locator("summary").click()
        expect(visited.locator("tbody tr")).to_have_count(2)
        assert visited.locator("thead th[scope=col]").all_text_contents() == ["name", "value"]
        assert visited.locator("tbody td").all_text_contents() == ["1,235", "–"]


def test_a_line_chart_is_read_and_selected(show: Show) -> None:
    with show(
        [
            chart(
                "lineChart",
                x=[10, 20, 30],
                series=[line([1, None, 3.5]), line([4, 5, 6], "Turkey", 1)],
                xTitle="update",
            )
        ]
    ) as visited:
        reader, said = visited.get_by_role("slider"), visited.locator("[aria-live=polite]")
        reader.focus()
        expect(said).to_have_text("France 1, Turkey 4")
        visited.keyboard.press("ArrowRight")
        expect(said).to_have_text("France –, Turkey 5")
        assert reader.get_attribute("aria-valuetext") == "update 20"
        visited.keyboard.press("End")
        expect(visited.locator(".chart-tooltip")).to_contain_text("3.5")
        visited.keyboard.press("ArrowRight")
        visited.keyboard.press("Enter")
        assert calls(visited) == [[2]]
        visited.keyboard.press("Tab")
        expect(visited.locator(".chart-tooltip")).to_be_hidden()
        box = box_of(reader)
        visited.mouse.move(box["x"] + box["width"] * 0.45, box["y"] + 40)
        expect(visited.locator(".chart-tooltip")).to_contain_text("update 20")
        visited.mouse.down()
        visited.mouse.up()
        assert calls(visited)[-1] == [1]


def test_the_selected_place_is_marked_and_the_focus_outlives_a_new_width(show: Show) -> None:
    with show([chart("lineChart", x=[10, 20, 30], series=[line([1, 2, 3])], selected=2)]) as visited:
        assert visited.locator(".chart-selected-rule").count() == 1
        reader = visited.get_by_role("slider")
        reader.focus()
        before = visited.locator(".chart-svg").get_attribute("width")
        visited.set_viewport_size({"width": 900, "height": 700})
        expect(visited.locator(".chart-svg")).not_to_have_attribute("width", before or "")
        expect(reader).to_be_focused()


def test_a_long_line_keeps_its_extremes_and_gaps(show: Show) -> None:
    values: list[float | None] = [math.sin(step / 700) for step in range(20_000)]
    values[4_321], values[15_555] = 50, -50
    values[9_000:11_000] = [None] * 2_000
    with show([chart("lineChart", x=list(range(20_000)), series=[line(values)])]) as visited:
        path = visited.locator(".chart-line[stroke-dasharray]").last.get_attribute("d") or ""
        corners = re.findall(r"([ML])([\d.]+) ([\d.]+)", path)
        assert 400 < len(corners) <= 600
        assert [kind for kind, *_ in corners].count("M") == 2, "one gap"
        heights = sorted(float(y) for *_, y in corners)
        assert min(heights[1] - heights[0], heights[-1] - heights[-2]) > 50, "both extremes"
        visited.get_by_role("slider").focus()
        visited.evaluate("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'End' }))")
        assert visited.get_by_role("slider").get_attribute("aria-valuetext") == "19,999"


def test_stacked_areas_end_at_their_sum(show: Show) -> None:
    series = [line([1, 2, None], "France"), line([3, 3, 8], "Turkey", 1)]
    with show([chart("stackedAreas", x=[1901, 1902, 1903], series=series, xTitle="year", yTitle="centres")]) as visited:
        assert visited.locator(".chart-legend li").all_text_contents() == ["Turkey", "France"], "as they lie"
        assert (
            len(set(visited.locator(".chart-area + path").evaluate_all("all => all.map(p => p.getAttribute('fill'))")))
            == 2
        )
        visited.get_by_role("slider").focus()
        expect(visited.locator("[aria-live=polite]")).to_have_text("Turkey 3, France 1, together 4")
        visited.keyboard.press("End")
        expect(visited.locator("[aria-live=polite]")).to_have_text("Turkey 8, France –, together 8")
        visited.keyboard.press("Space")
        assert calls(visited) == [[2]]


def test_histograms_share_their_bins(show: Show) -> None:
    panels = [line([0, 0, 1, 9], "One"), line([0, 10, 10], "Two", 1)]
    with show([chart("histograms", panels=panels, xTitle="reward", bins=5)]) as visited:
        visited.get_by_role("slider").focus()
        expect(visited.locator("[aria-live=polite]")).to_have_text("One 75% (3), Two 33.33% (1)")
        visited.keyboard.press("End")
        expect(visited.locator("[aria-live=polite]")).to_have_text("One 25% (1), Two 66.67% (2)")
        assert visited.locator(".chart-mean").count() == 2
        upper, lower = (box_of(visited.locator(f".chart-bar[fill='{COLORS[place]}']").last) for place in (0, 1))
        assert lower["y"] == pytest.approx(upper["y"] + upper["height"], abs=1), "the second hangs from the axis"
        assert abs(upper["x"] - lower["x"]) < 0.1
        facts = visited.locator(".chart-drawing tspan.chart-tick").all_text_contents()
        assert facts == ["4 values, mean 2.5", "3 values, mean 6.667"]


def test_box_plots_tell_their_figures(show: Show) -> None:
    groups = [{**line([1, 2, 3, 4, 100]), "selected": True}, {**line([], "Empty", 1), "selected": False}]
    with show([chart("boxPlots", groups=groups, yTitle="reward")]) as visited:
        buttons = visited.get_by_role("button")
        wanted = "France: 5 values, median 3, mean 22, middle half from 2 to 4, 1 outlier"
        assert [button.get_attribute("aria-label") for button in buttons.all()] == [wanted, "Empty: no values"]
        assert [button.get_attribute("aria-pressed") for button in buttons.all()] == ["true", "false"]
        assert visited.locator(".chart-outlier").count() == 1
        buttons.nth(1).focus()
        visited.keyboard.press("Enter")
        buttons.nth(0).click()
        assert calls(visited) == [[1], [0]]


def test_a_heat_map_is_a_grid_with_one_tab_stop(show: Show) -> None:
    values = [[-2, 0, 1], [None, 0.75, 0.5]]
    with show([chart("heatMap", rows=["A", "B"], columns=["x", "y", "z"], values=values, symmetric=True)]) as visited:
        cells = visited.get_by_role("gridcell")
        assert visited.locator("[role=gridcell][tabindex='0']").count() == 1
        visited.locator("[role=gridcell][tabindex='0']").focus()
        for key in ("ArrowRight", "ArrowDown", "ArrowDown", "Enter", "Home"):
            visited.keyboard.press(key)
        expect(cells.nth(3)).to_be_focused()
        assert cells.nth(3).get_attribute("aria-label") == "B, x: no value"
        assert visited.locator("[role=gridcell][tabindex='0']").count() == 1
        cells.nth(2).click()
        assert calls(visited) == [[1, 1], [0, 2]]
        fills = [cell.locator("rect").evaluate("rect => getComputedStyle(rect).fill") for cell in cells.all()]
        assert len({fills[0], fills[1], fills[2], fills[4]}) == 4
        middle = visited.evaluate(
            """() => {
              const probe = document.querySelector("main");
              probe.style.fill = "color-mix(in oklab, var(--chart-high) 0%, var(--paper))";
              return getComputedStyle(probe).fill;
            }"""
        )
        assert fills[1] == middle, "0 is the paper"
        assert visited.locator(".chart-cell text").all_text_contents() == ["−2", "0", "1", "–", "0.75", "0.5"]


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_bars_start_at_zero(show: Show, viewport: dict[str, int]) -> None:
    items = [
        {"name": "up", "value": 2, "color": COLORS[0], "interval": [1, 4]},
        {"name": "down", "value": -1, "color": COLORS[1]},
        {"name": "unknown", "value": None, "color": COLORS[2]},
    ]
    with show([chart("bars", items=items, unit="%")], viewport) as visited:
        up, down = (box_of(bar) for bar in visited.locator(".chart-bar").all())
        assert up["x"] == pytest.approx(down["x"] + down["width"], abs=0.5)
        assert up["width"] == pytest.approx(2 * down["width"], abs=1)
        assert visited.locator(".chart-value").all_text_contents() == ["2%", "−1%", "–"]
        assert visited.get_by_role("button").first.get_attribute("aria-label") == "up: 2%, from 1 to 4"
        visited.get_by_role("button").nth(2).press("Space")
        assert calls(visited) == [[2]]


def test_a_radar_is_read_axis_by_axis(show: Show) -> None:
    axes = [{"name": name, "low": 0, "high": 10} for name in ("Trust", "Speed", "Reach")]
    with show([chart("radar", axes=axes, series=[line([5, 10, 20]), line([None, 1, 2], "Turkey", 1)])]) as visited:
        visited.get_by_role("slider").focus()
        expect(visited.locator("[aria-live=polite]")).to_have_text("France 5, Turkey –")
        visited.keyboard.press("ArrowRight")
        expect(visited.locator(".chart-tooltip")).to_contain_text("Speed (0 to 10)")
        shapes = visited.locator(".chart-mark").evaluate_all("all => all.map(mark => mark.getAttribute('d'))")
        assert len(shapes) == 5, "none where a value is missing"
        assert len(set(shapes)) == 2, "a shape for each series"


def test_dots_move_into_their_groups(show: Show) -> None:
    with show([dots(200)]) as visited:
        before = dot_places(visited)
        visited.evaluate("built[0].update({ layout: 'groups' })")
        after = rest(visited)
        assert sum(abs(a[0] - b[0]) > 5 for a, b in zip(before, after, strict=True)) > 150
        lanes = [box_of(lane) for lane in visited.locator(".chart-lane").all()]
        left = box_of(visited.locator(".chart-svg"))["x"]
        for point, (x, _) in zip(points(200), after, strict=True):
            lane = lanes[("early", "middle", "late").index(point["group"])]
            assert lane["x"] <= left + x <= lane["x"] + lane["width"]
        gaps = [math.dist(a, b) for place, a in enumerate(after) for b in after[:place]]
        assert min(gaps) >= 8, "no dot covers another"
        assert visited.locator(".chart-groups .chart-name").all_text_contents() == ["early", "middle", "late"]
        assert visited.locator(".chart-group-mean").count() == 3
        visited.evaluate("built[0].update({ layout: 'scatter' })")
        assert rest(visited) == before


def test_dots_move_at_once_where_motion_is_reduced(show: Show) -> None:
    with show([dots(50)], reduced_motion="reduce") as visited:
        before = dot_places(visited)
        visited.evaluate("built[0].update({ layout: 'groups' })")
        moved = dot_places(visited)
        assert moved != before
        assert rest(visited) == moved
        animations = visited.evaluate("document.getAnimations().length")
        assert animations == 0


def test_dots_glide_where_motion_is_not_reduced(show: Show) -> None:
    with show([dots(50)]) as visited:
        before = dot_places(visited)
        # The frames' clock, so that the test does not depend on the machine's speed.
        visited.evaluate("""() => {
          window.frames_asked = [];
          window.requestAnimationFrame = (step) => frames_asked.push(step);
          built[0].update({ layout: "groups" });
          frames_asked.shift()(performance.now() + 300);
        }""")
        half = dot_places(visited)
        visited.evaluate("frames_asked.shift()(performance.now() + 5000)")
        after = dot_places(visited)
        for a, b, c in zip(before, half, after, strict=True):
            assert math.dist(a, b) + math.dist(b, c) == pytest.approx(math.dist(a, c), abs=0.1), "on the way"
        assert half not in (before, after)


def test_many_equal_dots_stay_inside_their_column(show: Show) -> None:
    same = [{**point, "y": 1.0, "group": "early"} for point in points(2_000)]
    with show([dots(points=same, layout="groups")], PHONE) as visited:
        xs = [x for x, _ in dot_places(visited)]
        lane, left = box_of(visited.locator(".chart-lane").first), box_of(visited.locator(".chart-svg"))["x"]
        assert left + min(xs) >= lane["x"] - 1
        assert left + max(xs) <= lane["x"] + lane["width"] + 1
        assert len(set(xs)) > 50, "as far apart as there is room"


def test_dots_come_go_and_change(show: Show) -> None:
    with show([dots(20, selected="dot 3")]) as visited:
        assert visited.locator("[role=option][aria-selected=true]").get_attribute("aria-label") == "Episode 3"
        visited.locator("[role=option][tabindex='0']").focus()
        changed = [{**points(21)[place], "color": COLORS[2], "y": None if place == 20 else 1} for place in range(5, 21)]
        visited.evaluate("changed => built[0].update({ points: changed, selected: 'dot 7' })", changed)
        rest(visited)
        assert visited.locator(".chart-dot").count() == 16
        assert visited.locator(f".chart-dot[fill='{COLORS[2]}']:visible").count() == 15
        assert visited.locator(".chart-missing").inner_text().startswith("1 of 16 dots are not shown")
        assert visited.locator("[role=option]:focus").count() == 1, "the focus is not lost with its dot"
        visited.evaluate("built[0].update({ points: [], groups: [], layout: 'groups' })")
        assert visited.locator(".chart-dot").count() == 0
        expect(visited.locator(".chart-drawing")).to_contain_text("No values")


def test_dots_are_reached_by_keys_and_pointer(show: Show) -> None:
    cross: dict[str, tuple[float, float]] = {
        "middle": (0, 0),
        "left": (-5, 1),
        "right": (5, 1),
        "up": (1, 5),
        "down": (1, -5),
        "twin": (0, 0),
    }
    cross["aside"] = (-4.5, 4)  # nearest to the left one, but rather above it than to its right
    made = [{"id": name, "label": f"The {name}", "x": x, "y": y, "color": COLORS[0]} for name, (x, y) in cross.items()]
    with show([dots(points=made, boundaries=[])]) as visited:
        focused = visited.locator("[role=option]:focus")
        visited.locator("[role=option][tabindex='0']").focus()
        assert focused.get_attribute("aria-label") == "The left"
        expect(visited.locator(".chart-tooltip")).to_have_text("The left")
        walk = ["ArrowRight", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowLeft", "End"]
        seen = []
        for key in walk:
            visited.keyboard.press(key)
            seen.append(str(focused.get_attribute("aria-label")).removeprefix("The "))
        assert seen == ["middle", "twin", "down", "middle", "aside", "right"]
        visited.keyboard.press("Enter")
        assert visited.locator("[role=option][tabindex='0']").count() == 1
        box = box_of(visited.locator("[role=option]").nth(3))
        visited.mouse.click(box["x"] + 8, box["y"] + 12)  # beside the dot
        assert calls(visited) == [["right"], ["up"]]
        expect(visited.locator(".chart-tooltip")).to_have_text("The up")


def test_boundaries_are_moved_by_keys(show: Show) -> None:
    with show([dots()]) as visited:
        handles = visited.get_by_role("slider")
        first, second = handles.nth(0), handles.nth(1)
        assert first.get_attribute("aria-label") == "Boundary 1 of 2 on own centres"
        low, high = (float(first.get_attribute(f"aria-value{end}") or "") for end in ("min", "max"))
        first.focus()
        wanted = 12.0
        for key, part in (
            ("ArrowRight", 0.01),
            ("ArrowLeft", -0.01),
            ("PageUp", 0.1),
            ("PageDown", -0.1),
            ("ArrowUp", 0.01),
        ):
            visited.keyboard.press(key)
            wanted += part * (high - low)
            index, value, finished = calls(visited)[-1]
            assert (index, finished) == (0, True)
            assert value == pytest.approx(wanted)
            assert float(first.get_attribute("aria-valuenow") or "") == pytest.approx(wanted)
        visited.keyboard.press("End")
        assert calls(visited)[-1] == [0, 24, True], "never beyond its neighbour"
        second.focus()
        visited.keyboard.press("End")
        assert calls(visited)[-1][1] == pytest.approx(high)
        visited.evaluate("built[0].update({})")
        assert float(second.get_attribute("aria-valuenow") or "") != 24, "the chart keeps what was moved"
        visited.evaluate("built[0].update({ layout: 'groups' })")
        assert handles.count() == 0


def test_boundaries_are_dragged_by_mouse(show: Show) -> None:
    with show([dots()]) as visited:
        handle = visited.get_by_role("slider").first
        box = box_of(handle)
        x, y = box["x"] + box["width"] / 2 - 4, box["y"] + box["height"] / 2
        visited.mouse.click(x, y)
        assert calls(visited) == [], "nothing was moved"
        visited.mouse.down()
        # Many movements within one frame: the chart's caller hears of one.
        visited.evaluate(
            """([x, y]) => new Promise((done) => requestAnimationFrame(() => {
              const handle = document.querySelector("[role=slider]");
              const common = { pointerId: 1, bubbles: true, clientY: y };
              for (let step = 1; step <= 40; step += 1) {
                handle.dispatchEvent(new PointerEvent("pointermove", { ...common, clientX: x + step }));
              }
              requestAnimationFrame(() => requestAnimationFrame(done));
            }))""",
            [x, y],
        )
        drags = calls(visited)
        assert len(drags) == 1
        assert [drags[0][0], drags[0][2]] == [0, False]
        visited.mouse.move(x + 30, y)
        visited.evaluate("document.querySelector('main').append(document.querySelector('figure'))")  # a page drawn anew
        visited.mouse.move(x + 60, y + 30)
        visited.mouse.up()
        *moves, (index, value, finished) = calls(visited)
        assert all(move[2] is False for move in moves)
        assert (index, finished) == (0, True)
        assert box_of(handle)["x"] == pytest.approx(box["x"] + 60, abs=1)
        assert value > 12
        visited.mouse.move(x + 200, y)
        assert len(calls(visited)) == len(moves) + 1, "released"


def test_boundaries_are_dragged_by_touch(show: Show) -> None:
    with show([dots()], PHONE, has_touch=True, is_mobile=True) as visited:
        handle = visited.get_by_role("slider").nth(1)
        handle.scroll_into_view_if_needed()
        box = box_of(handle)
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        session = visited.context.new_cdp_session(visited)
        touches = [("touchStart", x), *(("touchMove", x - step) for step in range(5, 45, 5))]
        for kind, at in touches:
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": at, "y": y}]})
        session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        visited.wait_for_function("calls.at(-1)?.at(-1) === true")
        index, value, _ = calls(visited)[-1]
        assert index == 1
        assert value < 24
        assert box_of(handle)["x"] < box["x"] - 25


def test_charts_follow_the_width_of_their_place(show: Show) -> None:
    with show(all_charts(), LAPTOP) as visited:
        wide = visited.locator(".chart-svg").first.get_attribute("width")
        visited.set_viewport_size({"width": 360, "height": 740})
        expect(visited.locator(".chart-svg").first).not_to_have_attribute("width", str(wide))
        visited.wait_for_function("document.documentElement.scrollWidth <= 360")
        for svg in visited.locator(".chart-svg").all():
            assert float(svg.get_attribute("width") or "") <= 360
        assert min(visited.locator(".chart text").evaluate_all(SHOWN_SIZES)) >= 11


def test_the_focus_is_seen(show: Show) -> None:
    with show(all_charts()) as visited:
        seen = set()
        while True:
            visited.keyboard.press("Tab")
            if visited.evaluate("document.activeElement === document.body"):
                break
            role, looks = visited.evaluate(
                """() => {
                  const node = document.activeElement;
                  const style = getComputedStyle(node);
                  const grip = node.querySelector(".chart-boundary-grip");
                  const grips = grip !== null && getComputedStyle(grip).strokeWidth === "3px";
                  return [node.getAttribute("role"), style.outlineStyle !== "none" || grips];
                }"""
            )
            assert looks, f"{role} has the focus and does not show it"
            seen.add(role)
        assert {"slider", "button", "gridcell", "option"} <= seen
