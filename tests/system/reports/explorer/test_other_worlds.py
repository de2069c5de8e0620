"""The explorer's pages of word problems and of a comparison in a real Chromium, offline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from cluster.explore.page import write_explorer
from tests.system.reports.explorer.other_worlds import compared_folder, word_problem_run
from tests.system.reports.explorer.pages import LAPTOP, VIEWS, drawn

pytestmark = pytest.mark.system

# Words of Diplomacy, which no other world has.
OF_DIPLOMACY = re.compile(
    r"\b(countr(y|ies)|orders?|centres?|Diplomacy|alliances?|retreats?|opening|midgame|line-ups?|France|Austria)\b",
    re.I,
)


@contextmanager
def visited(browser: Browser, file: Path, address: str = "") -> Iterator[Page]:
    """The page of a file; afterwards nothing may have been written to the console or asked of a network."""
    problems: list[str] = []
    context = browser.new_context(viewport=LAPTOP, offline=True, reduced_motion="reduce")  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(file.as_uri() + (f"#{address}" if address else ""))
    drawn(page)
    yield page
    context.close()
    assert problems == []


def page_of(folder: Path) -> Path:
    return write_explorer(folder, None, lambda name, steps: lambda done: None)


@pytest.fixture(scope="module")
def word_problems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(word_problem_run(tmp_path_factory.mktemp("explored") / "problems"))


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(compared_folder(tmp_path_factory.mktemp("explored") / "compared"))


def shown(page: Page) -> str:
    """All text of the view and the selection, in closed details and options too."""
    text: str = page.evaluate(
        """() => [...document.querySelectorAll("#view, #inspector, #head")].map((node) => node.textContent).join(" ")"""
    )
    return text


def test_word_problems_open_in_every_view_in_their_own_words(browser: Browser, word_problems: Path) -> None:
    with visited(browser, word_problems) as page:
        for view in VIEWS:
            page.get_by_role("tab", name=view.capitalize()).click()
            drawn(page)
            text = shown(page)
            assert len(page.locator("#view").inner_text()) > 200, view
            assert not re.search(r"NaN|Infinity|undefined|\[object", text), view
            if view != "pitfalls":  # its experiments are made up
                assert OF_DIPLOMACY.search(text) is None, (view, OF_DIPLOMACY.search(text))
        page.get_by_role("tab", name="Course").click()
        drawn(page)
        expect(page.get_by_text("Which variant carried the update?")).to_be_visible()


def test_the_advantages_of_word_problems_are_those_that_the_run_recorded(browser: Browser, word_problems: Path) -> None:
    with visited(browser, word_problems, "view=groups") as page:
        expect(page.get_by_text("they are those that the run recorded")).to_be_visible()
        values = page.locator("select[data-key=Strategy] option").evaluate_all("(all) => all.map((each) => each.value)")
        assert {"trained", "none", "role", "auto"} <= set(values)
        assert not {"centers", "alliance", "phase", "lineup"} & set(values)


def test_every_question_about_word_problems_is_answered(browser: Browser, word_problems: Path) -> None:
    with visited(browser, word_problems) as page:
        names = page.locator("button.question").all_inner_texts()
        assert names[:3] == [
            "Why did this good episode get a negative advantage?",
            "What would groups by variant alone have changed?",
            "Which variant carried this update?",
        ]
        for name in names:
            page.get_by_role("tab", name="Start").click()
            drawn(page)
            page.get_by_role("button", name=name).click()
            drawn(page)
            assert page.locator(".tour-target").count() == 1, name
            assert len(page.locator(".tour-target").inner_text()) > 30, name


def test_a_comparison_opens_with_its_runs_and_its_own_page(browser: Browser, comparison: Path) -> None:
    with visited(browser, comparison) as page:
        runs = page.locator("select[data-key=run-chooser] option").all_inner_texts()
        assert len(runs) == 2
        for index, name in enumerate(runs):
            page.locator("select[data-key=run-chooser]").select_option(str(index))
            drawn(page)
            for view in (*VIEWS, "comparison"):
                page.get_by_role("tab", name=view.capitalize()).click()
                drawn(page)
                text = shown(page)
                assert len(page.locator("#view").inner_text()) > 200, (name, view)
                assert not re.search(r"NaN|Infinity|undefined|\[object", text), (name, view)
                if view not in ("pitfalls", "comparison"):
                    assert OF_DIPLOMACY.search(text) is None, (name, view, OF_DIPLOMACY.search(text))
            page.get_by_role("tab", name="Groups").click()
            drawn(page)
            expect(page.get_by_text("they are those that the run recorded")).to_be_visible()
        page.get_by_role("tab", name="Comparison").click()
        drawn(page)
        expect(page.locator("#view")).to_contain_text("cartpole_family")
