"""A page in Chromium with the charts that a test asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from services.reports.colors import country_styles
from services.reports.explorer.explorer import chart_scripts
from services.reports.page import asset, page
from tests.system.reports.explorer.charts.samples import LAPTOP, MOUNT, Chart, Show


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
