"""The documentation site, built as `make docs` builds it: no broken link, every package, pages that a phone shows."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright
from setuptools import find_packages

import entente
from tests.paths import ROOT

pytestmark = pytest.mark.system

FLOORS = ("cluster", "opponents", "services", "grpo_core")


class Document(HTMLParser):
    """The links, ids and paragraphs of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.paragraphs: list[str] = []
        self._open = False
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids |= {value for name in ("id", "name") if (value := values.get(name))}
        self.links += [value for name in ("href", "src") if (value := values.get(name))]
        if tag == "p":
            self._open = True
            self.paragraphs.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag != "p"

    def handle_data(self, data: str) -> None:
        if self._open:
            self.paragraphs[-1] += data


def broken_links(site: Path) -> list[str]:
    """Return "page: link" for every link within the site whose file or anchor is missing; URLs are not looked at."""
    pages = {file.resolve(): Document(file) for file in sorted(site.rglob("*.html")) if file.name != "404.html"}
    broken = []
    for file, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            anchor = urllib.parse.unquote(parts.fragment)
            inside = target.is_file() and site.resolve() in target.parents
            if not inside or (anchor and target in pages and anchor not in pages[target].ids):
                broken.append(f"{file.relative_to(site.resolve())}: {link}")
    return broken


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_the_check_finds_a_missing_file_and_a_missing_anchor(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<a href="b.html#here">1</a> <a href="b.html#no">2</a> <img src="c.png">')
    (tmp_path / "b.html").write_text(
        '<p id="here"><a href="../outside">3</a> <a href="https://example.org/x">4</a></p>'
    )
    assert broken_links(tmp_path) == ["b.html: ../outside", "index.html: b.html#no", "index.html: c.png"]


def test_no_link_of_the_site_is_broken(site: Path) -> None:
    assert broken_links(site) == []


def test_the_readmes_are_pages_with_their_pictures(site: Path) -> None:
    front = Document(site / "index.html")
    assert "tests/benchmarks/demo/learning_curves.png" in front.links
    readmes = [file for folder in (*FLOORS, "docker") for file in (ROOT / folder).rglob("README.md")]
    assert len(readmes) >= 6
    for file in readmes:
        assert (site / file.relative_to(ROOT).parent / "index.html").is_file()


def test_every_package_and_public_module_is_in_the_reference(site: Path) -> None:
    packages = find_packages(str(ROOT), include=[pattern for floor in FLOORS for pattern in (floor, f"{floor}.*")])
    assert len(packages) > 40
    for package in set(packages) - {"cluster.api.entente"}:  # that folder is a package of its own, see below
        described = Document(site / "api" / f"{package}.html").ids
        folder = ROOT.joinpath(*package.split("."))
        modules = [file.stem for file in folder.glob("*.py") if not file.stem.startswith("_")]
        assert {package, *(f"{package}.{module}" for module in modules)} <= described
    assert "grpo_core.advantages.pipeline.compute_advantages" in Document(site / "api/grpo_core.advantages.html").ids


def test_what_users_import_is_in_the_reference(site: Path) -> None:
    assert {f"entente.{name}" for name in entente.__all__} <= Document(site / "api/entente.html").ids


def test_lists_are_lists(site: Path) -> None:
    """What a hosted repository shows as a list can be a paragraph for MkDocs, if no empty line precedes it."""
    pages = [file for file in site.rglob("*.html") if "api" not in file.relative_to(site).parts]
    texts = [(file, paragraph) for file in pages for paragraph in Document(file).paragraphs]
    assert [(file, text) for file, text in texts if "\n- " in text or text.startswith("- ")] == []


@pytest.fixture(scope="module")
def page(site: Path) -> Iterator[Page]:
    """A phone's browser on the served site; it reaches nothing else, and reports what a page lacks."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            context = browser.new_context(viewport={"width": 390, "height": 844}, base_url=address)
            problems: list[str] = []
            context.on("request", lambda request: _note_foreign(request.url, address, problems))
            context.on("console", lambda message: problems.append(message.text))
            yield context.new_page()
            browser.close()
        server.shutdown()
    assert problems == []


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def _note_foreign(url: str, address: str, problems: list[str]) -> None:
    if not url.startswith((f"{address}/", "data:", "blob:")):
        problems.append(f"asked for {url}")


@pytest.mark.parametrize(
    ("path", "heading"),
    [
        ("index.html", "Entente"),
        ("grpo_core/index.html", "The mathematics"),
        ("configuration.html", "Configuration"),
        ("metrics.html", "Metrics"),
        ("api/grpo_core.advantages.html", "grpo_core.advantages"),
        ("tests/benchmarks/RESULTS.html", "Results"),
    ],
)
def test_a_page_fits_on_a_phone(page: Page, path: str, heading: str) -> None:
    page.goto(f"/{path}")
    expect(page.locator("h1").first).to_contain_text(heading)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")


def test_the_search_finds_a_function(page: Page) -> None:
    page.goto("/index.html")
    page.locator("label.md-header__button[for=__search]").click()
    page.get_by_role("textbox", name="Search").fill("compute_advantages")
    found = page.locator(".md-search-result__link", has_text="compute_advantages").first
    expect(found).to_be_visible(timeout=120_000)
