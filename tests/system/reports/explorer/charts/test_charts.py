"""The explorer's charts in a real Chromium, offline: ordinary and hostile data, pointer, keys and touch."""

from __future__ import annotations

import math
import re

import pytest
from playwright.sync_api import expect

from tests.system.reports.explorer.charts.samples import (
    COLORS,
    EVIL,
    LAPTOP,
    PHONE,
    WIDE,
    Show,
    all_charts,
    box_of,
    calls,
    chart,
    hostile_charts,
    line,
)

pytestmark = pytest.mark.system


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


def test_narrow_cells_of_a_heat_map_have_shorter_numbers_and_zeros_none(show: Show) -> None:
    columns = [f"c{number}" for number in range(32)]
    values = [[-1.678, 0, 0.0123, 2.3, *[0] * 28]]
    with show([chart("heatMap", rows=["A"], columns=columns, values=values, symmetric=True)]) as visited:
        assert visited.locator(".chart-cell text").all_text_contents() == ["−1.7", "2.3"]
        assert visited.get_by_role("gridcell").nth(2).get_attribute("aria-label") == "A, c2: 0.0123"


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
        assert visited.locator(".chart-cell text").all_text_contents() == ["−2", "1", "–", "0.75", "0.5"]


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
