"""The explorer's page by keys alone: stops with names, a focus that stays, and the tour."""

from __future__ import annotations

import pytest
from playwright.sync_api import TimeoutError, expect

from tests.system.reports.explorer.pages import VIEWS, Open, choice, drawn

pytestmark = pytest.mark.system


END_IS_ABOVE_THE_BOX = """() => {
  scrollTo(0, document.body.scrollHeight);
  const bottom = document.querySelector("#shell").getBoundingClientRect().bottom;
  return bottom <= document.querySelector(".tour").getBoundingClientRect().top;
}"""


def test_the_tour_leads_through_the_page(opened: Open) -> None:
    with opened() as page:
        page.get_by_role("button", name="Take the tour").click()
        titles = []
        while True:
            drawn(page)
            box = page.locator(".tour")
            titles.append(box.locator("h2").inner_text())
            assert page.locator(".tour-target").count() == 1, titles[-1]
            try:  # charts are drawn, and the page grows, a few frames after the rest
                page.wait_for_function(END_IS_ABOVE_THE_BOX, timeout=20_000)
            except TimeoutError:
                pytest.fail(f"the box covers the end of the page: {titles[-1]}")
            last = box.get_by_role("button", name="Done")
            if last.count():
                last.click()
                break
            box.get_by_role("button", name="Next", exact=True).click()
        drawn(page)
        assert len(titles) == len(set(titles)) == 9
        expect(page.locator(".tour")).to_have_count(0)


def test_keys_alone_reach_every_view(opened: Open) -> None:
    with opened() as page:
        page.get_by_role("tab", name="Start").focus()
        for view in (*VIEWS[1:], "start"):
            page.keyboard.press("ArrowRight")
            drawn(page)
            assert choice(page).get("view", "start") == view
            assert page.evaluate("() => document.activeElement.id") == f"tab-{view}"


def test_the_skip_link_keeps_the_selection(opened: Open) -> None:
    with opened("view=groups&episode=1") as page:
        page.locator("a.skip").focus()
        page.keyboard.press("Enter")
        drawn(page)
        assert choice(page) == {"view": "groups", "episode": "1"}
        assert page.evaluate("() => document.activeElement.id") == "view"


def test_keys_alone_lead_through_the_tour(opened: Open) -> None:
    with opened() as page:
        page.get_by_role("button", name="Take the tour").press("Enter")
        drawn(page)
        assert page.evaluate("() => document.activeElement.closest('.tour') !== null")
        page.get_by_role("button", name="Next", exact=True).press("Enter")
        drawn(page)
        page.get_by_role("button", name="Back", exact=True).press("Enter")
        drawn(page)
        assert page.evaluate("() => document.activeElement.closest('.tour') !== null")
        page.keyboard.press("Escape")
        drawn(page)
        expect(page.locator(".tour")).to_have_count(0)
        assert page.evaluate("() => document.activeElement.id") == "start-tour"


def test_the_focus_stays_where_one_pressed(opened: Open) -> None:
    with opened("view=course") as page:
        reader = page.locator("#view [role=slider]").nth(1)
        reader.focus()
        name = reader.get_attribute("aria-label")
        page.keyboard.press("Home")
        page.keyboard.press("Enter")
        drawn(page)
        page.wait_for_function("() => document.activeElement !== document.body")
        assert choice(page)["update"] == "1"
        assert page.evaluate("() => document.activeElement.getAttribute('aria-label')") == name
        assert page.locator("#view [role=slider]").nth(1).evaluate("(node) => node === document.activeElement")


@pytest.mark.parametrize("view", ["groups", "course", "pitfalls"])
def test_every_stop_of_the_tab_key_has_a_name(opened: Open, view: str) -> None:
    with opened(f"view={view}") as page:
        nameless = []
        for _ in range(60):
            page.keyboard.press("Tab")
            name = page.evaluate(
                """() => { const node = document.activeElement; return node === document.body ? "the page" :
                  node.getAttribute("aria-label") || node.labels?.[0]?.textContent || node.textContent.trim() ||
                  node.id || ""; }"""
            )
            if not name:
                nameless.append(page.evaluate("() => document.activeElement.outerHTML.slice(0, 120)"))
        assert nameless == []


@pytest.mark.parametrize(
    ("address", "press"),
    [
        ("", "Why did this good game get a negative advantage?"),
        ("view=groups&strategy=role", "Back to how it was"),
        ("view=groups&update=2", "Update before"),
    ],
)
def test_the_focus_is_never_lost(opened: Open, address: str, press: str) -> None:
    with opened(address) as page:
        page.get_by_role("button", name=press).focus()
        page.keyboard.press("Enter")
        drawn(page)
        page.wait_for_timeout(200)
        assert page.evaluate("() => document.activeElement !== document.body")


def test_the_tour_gives_back_what_was_chosen(opened: Open) -> None:
    address = "view=groups&strategy=phase&update=2&episode=3"
    with opened(address) as page:
        before = choice(page)
        page.get_by_role("button", name="Take the tour").click()
        drawn(page)
        page.get_by_role("button", name="Next", exact=True).click()
        drawn(page)
        page.get_by_role("button", name="Leave").click()
        drawn(page)
        assert choice(page) == before
        page.get_by_role("button", name="Take the tour").click()
        drawn(page)
        page.go_back()
        drawn(page)
        expect(page.locator(".tour")).to_have_count(0)
