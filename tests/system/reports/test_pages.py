"""The pages in a real Chromium, offline."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from diplomacy import Game
from diplomacy.utils.export import to_saved_game_format
from playwright.sync_api import Browser, Page, expect, sync_playwright

from services.reports.game_viewer.game_viewer import write_viewer
from services.reports.run_report.run_report import write_report

pytestmark = pytest.mark.system

COUNTRIES = ("AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY")
LAPTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield made
        made.close()


class Visit:
    """A page and the problems that the browser reported."""

    def __init__(self, browser: Browser, file: Path, viewport: dict[str, int], scheme: str = "light") -> None:
        self.problems: list[str] = []
        self._context = browser.new_context(viewport=viewport, color_scheme=scheme, offline=True)  # type: ignore[arg-type]
        self.page: Page = self._context.new_page()
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url, file))
        self.page.goto(file.as_uri())

    def _asked(self, url: str, file: Path) -> None:
        if url != file.as_uri() and not url.startswith("data:"):
            self.problems.append(f"asked for {url}")

    def __enter__(self) -> Page:
        return self.page

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._context.close()
        if kind is None:
            assert self.problems == []


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    game = Game(game_id="shown")
    for orders in (["A PAR - BUR", "A MAR S A PAR - BUR"], ["A BUR - BEL"], ["A PAR B"]):
        game.set_orders("FRANCE", orders)
        game.set_orders("GERMANY", ["A MUN - BUR"])
        game.process()
    folder = tmp_path_factory.mktemp("viewer")
    (folder / "game.json").write_text(json.dumps(to_saved_game_format(game)))
    return write_viewer(folder / "game.json", folder / "game.html", {"FRANCE": "the learner"})


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    lines = [
        {
            "update": update,
            "time": 1e9 + update,
            "metrics": {
                "entente_loss": math.sin(update),
                "entente_games_total": update * 50,
                "entente_run_seconds_total": update * 9.0,
                **{f"entente_batch_centers{{country={name}}}": 4 + update / 10 for name in COUNTRIES},
            },
        }
        for update in range(1, 21)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    scores = {"games": 10, "win_rate": 0.0, "top_rate": 0.2, "survival_rate": 1.0, "sum_of_squares": 0.1}
    rows = []
    for checkpoint, mean in (("checkpoints/0", 4.0), ("checkpoints/20", 6.0)):
        row = {**scores, "mean_centers": mean, "mean_centers_ci95": [mean - 0.4, mean + 0.4]}
        head = {"checkpoint": checkpoint, "against": "random", "until_year": 1905}
        rows.append({**head, **row, "by_country": dict.fromkeys(COUNTRIES, row)})
    (folder / "summary.json").write_text(json.dumps({"run": "shown", "updates": 20, "evaluations": rows}))
    return write_report(folder)


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_viewer_shows_a_game_offline(browser: Browser, viewer: Path, viewport: dict[str, int], scheme: str) -> None:
    with Visit(browser, viewer, viewport, scheme) as page:
        assert page.inner_text("#phase") == "Spring 1901"
        assert page.locator("#board svg").bounding_box()["width"] > viewport["width"] / 2  # type: ignore[index]
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        assert page.locator("#powers .power").count() == 7


def test_slider_keys_buttons_and_chart_move_the_phase(browser: Browser, viewer: Path) -> None:
    with Visit(browser, viewer, LAPTOP) as page:
        page.locator("#slider").fill("2")
        assert page.inner_text("#phase") == "Winter 1901"
        page.keyboard.press("ArrowLeft")
        assert page.inner_text("#place") == "F1901M"
        page.keyboard.press("End")
        assert page.inner_text("#place") == "S1902M"
        page.keyboard.press("Home")
        page.click("#next")
        assert page.inner_text("#place") == "F1901M"
        box = page.locator("#chart").bounding_box()
        assert box is not None
        page.locator("#chart").click(position={"x": box["width"] - 2, "y": 20})
        assert page.inner_text("#place") == "S1902M"


def test_playing_stops_at_the_end(browser: Browser, viewer: Path) -> None:
    with Visit(browser, viewer, LAPTOP) as page:
        page.keyboard.press("Space")
        assert page.get_attribute("#play", "aria-label") == "Pause"
        expect(page.locator("#place")).to_have_text("S1902M", timeout=30_000)
        assert page.get_attribute("#play", "aria-label") == "Play"


def test_orders_results_and_seats_are_listed(browser: Browser, viewer: Path) -> None:
    with Visit(browser, viewer, LAPTOP) as page:
        side = page.inner_text("#powers")
        assert "A PAR - BUR" in side
        assert "bounce" in side
        assert "the learner" in side


def test_map_changes_with_the_phase(browser: Browser, viewer: Path) -> None:
    owner = "document.getElementById('board').shadowRoot.getElementById('_bel').outerHTML.includes('\"france\"')"
    arrows = "document.getElementById('board').shadowRoot.querySelectorAll('#OrderLayer line').length"
    with Visit(browser, viewer, LAPTOP) as page:
        assert page.evaluate(owner) is False
        assert page.evaluate(arrows) > 0
        page.locator("#slider").fill("3")
        assert page.evaluate(owner) is True
        assert page.evaluate(arrows) == 0
        page.keyboard.press("Home")
        page.uncheck("#show-orders")
        layer = "document.getElementById('board').shadowRoot.getElementById('OrderLayer')"
        assert page.evaluate(f"getComputedStyle({layer}).display") == "none"


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_draws_its_curves_offline(browser: Browser, report: Path, viewport: dict[str, int], scheme: str) -> None:
    with Visit(browser, report, viewport, scheme) as page:
        page.wait_for_selector("#country-FRANCE .scatterlayer path.js-line", state="attached")
        for name in ("country-all", *(f"country-{country}" for country in COUNTRIES), "speed-games", "learning-loss"):
            assert page.locator(f"[id='{name}'] path.js-line").count() >= 1
        # Two evaluations with an interval each.
        assert page.locator("#country-FRANCE .errorbar").count() == 2
        assert page.locator("#against-random .bars .point").count() == 14
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        assert "+2.00" in page.inner_text(".headline")


def test_charts_follow_the_browsers_colour_scheme(browser: Browser, report: Path) -> None:
    with Visit(browser, report, LAPTOP) as page:
        bar = page.locator("#country-FRANCE .errorbar path").first
        bar.wait_for(state="attached")
        light = bar.evaluate("(path) => getComputedStyle(path).stroke")
        page.emulate_media(color_scheme="dark")
        expect(bar).not_to_have_css("stroke", light)
