"""The explorer's page where a run or a browser lacks something, and hostile names."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from cluster.explore.page import write_explorer
from cluster.runs.traces import read_trace, trace_files
from tests.system.reports.explorer.pages import VIEWS, Open, drawn
from tests.system.reports.explorer.traced_run import traced_run

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("view=comparison", "This page shows what training learned from"),
        ("view=groups&role=nowhere", "Group sizes"),
        ("view=formulas&token=99999", "What the token adds"),
    ],
)
def test_places_that_the_page_does_not_have_lead_to_one_that_it_has(
    opened: Open, trace: dict[str, Any], address: str, expected: str
) -> None:
    turn = next(each["turn"] for each in trace["tokens"] if each["passes"])
    with opened(f"{address}&turn={turn}") as page:
        expect(page.locator("#view")).to_contain_text(expected)
        assert page.locator(".tabs [aria-selected=true]").count() == 1
        assert "Infinity" not in page.locator("#view").inner_text()
        if "groups" in address:
            assert page.locator(".chart-dot").count() > 0


def test_an_address_with_unknown_values_is_read_as_if_it_lacked_them(opened: Open, trace: dict[str, Any]) -> None:
    turn = next(each["turn"] for each in trace["tokens"] if each["passes"])
    place = f"view=formulas&turn={turn}&token=0"
    names = ("loss", "normalizer", "strategy", "other", "returns", "baseline", "scale", "weights", "ablations")
    odd = "&".join(f"{name}=xyz" for name in names)
    shown = []
    for address in (place, f"{place}&{odd}"):
        with opened(address) as page:
            expect(page.locator(".what-if")).to_have_count(0)
            shown.append(page.locator("#view").inner_text())
    assert shown[0] == shown[1]


def test_an_update_that_is_not_in_detail_leads_to_the_nearest_and_says_so(opened: Open) -> None:
    with opened("view=groups&update=99") as page:
        expect(page.locator("#head")).to_contain_text("Update 99 is not on this page in detail")
        expect(page.locator("#head")).to_contain_text("the nearest one that is, 3")
        page.get_by_role("button", name="Update before").click()
        drawn(page)
        expect(page.locator("#head")).not_to_contain_text("not on this page in detail")


def test_a_damaged_update_is_left_out_and_named(tmp_path: Path, opened: Open) -> None:
    run = traced_run(tmp_path / "run", updates=2)
    trace_files(run / "traces")[1].write_bytes(b"damaged")
    page_file = write_explorer(run, None, lambda name, steps: lambda done: None)
    with opened("view=groups", file=page_file) as page:
        expect(page.locator("#head")).to_contain_text("damaged and left out: 1")
        assert page.locator(".chart-dot").count() > 0


def test_a_browser_that_cannot_unpack_an_update_says_so(browser: Browser, written: Path) -> None:
    page = browser.new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(written.as_uri())
    drawn(page)
    expect(page.locator("#view")).to_contain_text("Open the page in a newer browser")
    page.close()


def test_a_run_without_updates_in_detail_says_why_its_questions_are_off(tmp_path: Path, opened: Open) -> None:
    run = traced_run(tmp_path / "run", updates=2)
    shutil.rmtree(run / "traces")
    page_file = write_explorer(run, None, lambda name, steps: lambda done: None)
    for view in VIEWS:
        with opened(f"view={view}", file=page_file) as page:
            if view == "start":
                expect(page.get_by_text("The questions need an update in detail")).to_be_visible()
            elif view != "pitfalls":
                expect(page.get_by_text(re.compile("Which country carried"))).to_be_visible()


def test_an_update_in_which_nothing_was_learned_says_so(tmp_path: Path, opened: Open) -> None:
    run = traced_run(tmp_path / "run", updates=1)
    path = next(iter(trace_files(run / "traces").values()))
    columns = read_trace(path)
    columns["turns"]["reward"] = [0.0] * len(columns["turns"]["reward"])
    columns["returns"] = [0.0] * len(columns["returns"])
    columns["advantages"] = [0.0] * len(columns["advantages"])
    path.write_bytes(gzip.compress(json.dumps(columns).encode()))
    page_file = write_explorer(run, None, lambda name, steps: lambda done: None)
    with opened(file=page_file) as page:
        page.get_by_role("button", name="Which country carried this update?").click()
        drawn(page)
        expect(page.locator("#carried")).to_contain_text("Nothing carried update 1: all its advantages are 0.")
        page.get_by_role("tab", name="Start").click()
        drawn(page)
        page.get_by_role("button", name="Why did this good game get a negative advantage?").click()
        drawn(page)
        expect(page.locator("#verdict")).to_contain_text("No sample of this update has a negative advantage")


def test_a_page_of_a_long_run_is_small_enough(tmp_path: Path, opened: Open) -> None:
    run = traced_run(tmp_path / "run", updates=500, detailed=2)
    page_file = write_explorer(run, None, lambda name, steps: lambda done: None)
    assert page_file.stat().st_size < 6_000_000
    with opened("view=course", file=page_file) as page:
        assert page.locator(".chart-svg").count() > 6
        versions = page.evaluate("() => detailedVersions(runs[0])")
        assert versions[-1] == 500
        assert len(versions) > 50


def test_the_demo_of_the_package_is_a_small_page(tmp_path: Path, opened: Open) -> None:
    page_file = write_explorer(Path("demo"), tmp_path / "demo.html", lambda name, steps: lambda done: None)
    assert page_file.stat().st_size < 2_000_000
    for view in VIEWS:
        with opened(f"view={view}", file=page_file) as page:
            expect(page.locator("#title")).to_have_text("demo")
    with opened("view=groups", file=page_file) as page:
        expect(page.get_by_text("they are those that the run recorded")).to_be_visible()
        page.locator("select[data-key=Strategy]").select_option("auto")  # its episodes have numbers to make clusters of
        drawn(page)
        assert page.locator(".notice.warning").count() == 0


def test_hostile_names_stay_text(tmp_path: Path, opened: Open) -> None:
    run = traced_run(tmp_path / "run", updates=1)
    path = next(iter(trace_files(run / "traces").values()))
    text = gzip.decompress(path.read_bytes()).decode()
    evil = "<img src=x onerror=alert(1)>"
    columns = json.loads(text.replace('"FRANCE"', json.dumps(evil)).replace("S1901M", "</script><b>x</b>"))
    path.write_bytes(gzip.compress(json.dumps(columns).encode()))
    page_file = write_explorer(run, None, lambda name, steps: lambda done: None)
    for view in VIEWS:
        with opened(f"view={view}&episode=1&turn=5", file=page_file) as page:
            assert page.locator("img").count() == 0
            assert page.locator("#view b").count() == 0
