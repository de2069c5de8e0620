"""The report of a long run in a real Chromium, offline: every chart, every table and every control."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from services.reports.run_report.run_report import write_report
from tests.long_run import long_run
from tests.measured import DIPLOMACY, TOPICS
from tests.system.reports.test_pages import LAPTOP, PHONE, Visit

pytestmark = pytest.mark.system

UPDATES = 500
MOST_BYTES = 8_000_000
DRAW_TIMEOUT_MS = 120_000.0  # of all charts, on a machine that is busy


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(long_run(tmp_path_factory.mktemp("long") / "run", UPDATES), DIPLOMACY)


@pytest.fixture(scope="module")
def charts(report: Path) -> dict[str, Any]:
    data = json.loads(report.read_text().split('id="data">')[1].split("</script>")[0])
    return {chart["id"]: chart for chart in data["charts"]}


def wait_until_drawn(page: Page, charts: dict[str, Any]) -> None:
    page.wait_for_function(
        "ids => ids.every(id => document.getElementById(id).querySelector('.main-svg'))",
        arg=list(charts),
        timeout=DRAW_TIMEOUT_MS,
    )


def plot(page: Page, name: str) -> Locator:
    return page.locator(f"[id='{name}']")


def test_the_report_of_500_updates_stays_small(report: Path, charts: dict[str, Any]) -> None:
    assert report.stat().st_size < MOST_BYTES
    assert {
        "groups-map",
        "histogram-returns",
        "advantages-roles",
        "opponents-ratings",
        "recent-rewards",
    } <= charts.keys()


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_with_its_text_and_table(
    browser: Browser, report: Path, charts: dict[str, Any], viewport: dict[str, int], scheme: str
) -> None:
    with Visit(browser, report, viewport, scheme) as page:
        wait_until_drawn(page, charts)
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        for name, chart in charts.items():
            figure = page.locator("figure").filter(has=plot(page, name))
            text = plot(page, name).get_attribute("aria-label") or ""
            assert plot(page, name).get_attribute("role") == "img"
            assert text.startswith(chart["title"])
            assert any(letter.isdigit() for letter in text.removeprefix(chart["title"])), name
            assert figure.locator("p.note").inner_text().endswith(".")
            figure.locator("summary").click()
            expect(figure.locator("tbody tr").first, name).to_be_attached()
            assert figure.locator("thead th[scope=col]").count() >= 2
            box = plot(page, name).bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= viewport["width"]


def test_a_table_has_the_figures_of_its_chart(browser: Browser, report: Path, charts: dict[str, Any]) -> None:
    with Visit(browser, report, LAPTOP) as page:
        wait_until_drawn(page, charts)
        [raw, smooth] = charts["learning-entropy"]["traces"]
        rows = cells_of(page, "learning-entropy")
        assert rows[0] == ["update", "Entropy, one update", "Entropy"]
        assert [float(cell) for cell in rows[-1]] == pytest.approx([UPDATES, raw["y"][-1], smooth["y"][-1]], rel=1e-3)
        heat = cells_of(page, "groups-map")
        assert [row[0] for row in heat] == ["mean return", *(role.capitalize() for role in DIPLOMACY.roles)]
        assert heat[0][-1] == f"update {UPDATES}"
        boxes = cells_of(page, "advantages-roles")
        assert boxes[0] == ["", "5%", "25%", "median", "75%", "95%", "mean"]
        assert len(boxes) == 1 + len(DIPLOMACY.roles)
        for row in boxes[1:]:
            assert [float(cell) for cell in row[1:6]] == sorted(float(cell) for cell in row[1:6])


def cells_of(page: Page, name: str) -> list[list[str]]:
    details = page.locator(f"details[data-chart='{name}']")
    if details.get_attribute("open") is None:
        details.locator("summary").click()
    expect(details.locator("tbody tr").first).to_be_attached()
    rows: list[list[str]] = details.locator("tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    return rows


def test_every_choice_of_every_list_is_drawn_and_told(browser: Browser, report: Path, charts: dict[str, Any]) -> None:
    with Visit(browser, report, LAPTOP) as page:
        wait_until_drawn(page, charts)
        told = set()
        for role in ("", *DIPLOMACY.roles):
            page.locator("#groups-role").select_option(role)
            assert page.locator("#advantages-role").input_value() == role, "the other section follows"
            for name in ("groups-map", "groups-mean", "advantages-updates", "histogram-returns"):
                text = plot(page, name).get_attribute("aria-label") or ""
                assert "no data" not in text
                told.add((name, text))
        assert len(told) == 4 * (1 + len(DIPLOMACY.roles))
        values = page.locator("#groups-value option").evaluate_all("all => all.map(o => o.value)")
        assert values == ["mean", "std", "zero", "judged", "advantage"]
        maps = set()
        for value in values:
            page.locator("#groups-value").select_option(value)
            maps.add(plot(page, "groups-map").get_attribute("aria-label"))
        assert len(maps) == len(values)


def test_a_chosen_country_changes_the_drawing_and_an_open_table(
    browser: Browser, report: Path, charts: dict[str, Any]
) -> None:
    with Visit(browser, report, LAPTOP) as page:
        wait_until_drawn(page, charts)
        before = cells_of(page, "groups-map")
        height = plot(page, "groups-map").bounding_box()
        page.locator("#advantages-role").select_option("ITALY")
        after = cells_of(page, "groups-map")
        assert after != before
        assert [row[0] for row in after[1:4]] == ["S1901M", "F1901M", "S1902M"]
        taller = plot(page, "groups-map").bounding_box()
        assert height is not None
        assert taller is not None
        assert taller["height"] > height["height"]
        assert plot(page, "histogram-returns").locator(".bars").count() == 2
        page.locator("#groups-role").select_option("")
        assert cells_of(page, "groups-map") == before
        expect(plot(page, "histogram-returns").locator(".bars")).to_have_count(1)


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_the_slider_goes_through_the_updates_by_keys(
    browser: Browser, report: Path, charts: dict[str, Any], viewport: dict[str, int]
) -> None:
    with Visit(browser, report, viewport) as page:
        wait_until_drawn(page, charts)
        slider, shown = page.locator("#advantages-frame"), page.locator("output[for=advantages-frame]")
        assert shown.inner_text() == "updates 496–500"
        before = plot(page, "histogram-returns").get_attribute("aria-label")
        slider.focus()
        page.keyboard.press("ArrowLeft")
        assert shown.inner_text() == slider.get_attribute("aria-valuetext") == "updates 491–495"
        assert plot(page, "histogram-returns").get_attribute("aria-label") != before
        page.keyboard.press("Home")
        assert shown.inner_text() == "updates 1–5"
        assert plot(page, "advantages-roles").locator("path.box").count() == len(DIPLOMACY.roles)
        page.keyboard.press("End")
        assert plot(page, "histogram-returns").get_attribute("aria-label") == before


def test_everything_is_reached_by_the_keyboard(browser: Browser, report: Path, charts: dict[str, Any]) -> None:
    with Visit(browser, report, LAPTOP) as page:
        wait_until_drawn(page, charts)
        reached: list[str] = []
        what = "document.activeElement.id || document.activeElement.parentElement?.dataset.chart || ''"
        for _ in range(400):
            page.keyboard.press("Tab")
            reached.append(page.evaluate(what))
            if reached[-1] == list(charts)[-1]:
                break
        assert {"groups-role", "groups-value", "advantages-role", "advantages-frame", *charts} <= set(reached)
        page.locator("details[data-chart='groups-map'] summary").focus()
        page.keyboard.press("Enter")
        expect(page.locator("details[data-chart='groups-map'] tbody tr")).to_have_count(7)
        box = page.get_by_role("region", name="Heat map by group, table")
        box.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("box => box.scrollLeft > 0", arg=box.element_handle())


def test_the_contents_lead_to_every_section(browser: Browser, report: Path) -> None:
    with Visit(browser, report, PHONE) as page:
        targets = page.locator("nav.contents a").evaluate_all("all => all.map(a => a.getAttribute('href').slice(1))")
        sections = page.locator("main > section[id]").evaluate_all("all => all.map(s => s.id)")
        assert targets == sections
        assert {"recent", "opponents", "groups", "advantages", "weights", "learning", "speed"} <= set(targets)


def test_a_world_without_opponents_has_no_section_of_them(browser: Browser, tmp_path: Path) -> None:
    page_file = write_report(long_run(tmp_path / "run", 3), TOPICS)
    with Visit(browser, page_file, LAPTOP) as page:
        page.wait_for_selector("#groups-map .main-svg", state="attached")
        assert page.locator("#opponents").count() == 0
        assert page.locator("#notable").count() == 0
        assert page.locator("#groups").count() == 1
