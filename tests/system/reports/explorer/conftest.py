"""A run whose updates left traces, its page, and that page in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from cluster.explore.page import write_explorer
from cluster.runs.traces import read_trace, trace_files
from tests.system.reports.explorer.pages import LAPTOP, Open, drawn
from tests.system.reports.explorer.traced_run import traced_run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced_run(tmp_path_factory.mktemp("explored") / "run")


@pytest.fixture(scope="session")
def written(run: Path) -> Path:
    return write_explorer(run, None, lambda name, steps: lambda done: None)


@pytest.fixture(scope="session")
def trace(run: Path) -> dict[str, Any]:
    """The newest update, which the page shows first."""
    files = trace_files(run / "traces")
    return read_trace(files[max(files)])


@pytest.fixture(scope="module")
def opened(browser: Browser, written: Path) -> Open:
    @contextmanager
    def visit(
        address: str = "", viewport: dict[str, int] = LAPTOP, scheme: str = "light", file: Path = written
    ) -> Iterator[Page]:
        problems: list[str] = []
        context = browser.new_context(
            viewport=viewport,
            color_scheme=scheme,
            offline=True,
            reduced_motion="reduce",  # type: ignore[arg-type]
        )
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: problems.append(request.url) if not request.url.startswith(
            ("file:", "data:")) else None)  # fmt: skip
        page.goto(file.as_uri() + (f"#{address}" if address else ""))
        drawn(page)
        yield page
        context.close()
        assert problems == []

    return visit
