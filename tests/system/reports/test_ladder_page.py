"""The page of a ladder in a real Chromium, offline, on a laptop and a phone, light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from services.reports.ladder_page.ladder_page import ladder_page
from services.reports.page import write_page
from tests.ladder_documents import document
from tests.system.reports.test_pages import LAPTOP, PHONE, Visit

pytestmark = pytest.mark.system


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_ladder_fits_and_is_drawn(browser: Browser, tmp_path: Path, viewport: dict[str, int], scheme: str) -> None:
    file = write_page(tmp_path / "ladder.html", ladder_page(document()))
    with Visit(browser, file, viewport, scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        assert page.locator(".chart .dot").count() == 3
        boxes = [dot.bounding_box() for dot in page.locator(".chart .dot").all()]
        lefts = [box["x"] for box in boxes if box is not None]
        assert lefts == sorted(lefts, reverse=True)  # the players come from the highest
        assert all(box is not None and box["width"] > 5 for box in boxes)
        solo = page.locator(".bars .part0").first.bounding_box()
        bar = page.locator(".bars .bar").first.bounding_box()
        assert solo is not None
        assert bar is not None
        assert solo["width"] / bar["width"] == pytest.approx(0.2, abs=0.01)
        page.locator("summary").first.click()
        assert page.locator("figure table").first.is_visible()
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(20, 22, 26)") == (scheme == "dark")
