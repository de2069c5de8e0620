"""What the tests of the explorer's pages share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from playwright.sync_api import Page

LAPTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
VIEWS = ("start", "groups", "advantages", "course", "formulas", "pitfalls")
Open = Callable[..., AbstractContextManager[Page]]


def drawn(page: Page) -> None:
    """Wait until the page has been drawn, and again after what is still to come."""
    page.wait_for_selector("body[data-drawn]")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")


def choice(page: Page) -> dict[str, str]:
    """What the address says is chosen."""
    found: dict[str, str] = page.evaluate("() => Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")
    return found
