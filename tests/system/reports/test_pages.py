"""The pages in a real Chromium, offline."""

from __future__ import annotations

import json
import math
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from diplomacy import Game
from diplomacy.utils.export import to_saved_game_format
from playwright.sync_api import Browser, Page, expect

from cluster.evaluation.event_loop import run_in_loop
from opponents.play import play_game
from services.environments.diplomacy.measures.press.story import press_story
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.reports.game_viewer.game_viewer import write_viewer
from services.reports.run_report.run_report import write_report
from tests.measured import DIPLOMACY

pytestmark = pytest.mark.system

COUNTRIES = ("AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY")
EVIL = "<img src=x onerror=alert(1)>"
LAPTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


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
    bot = {"player": "dumbbot", "kind": "bot", "checksum": "e7" * 32}
    learner = {"player": "demo/checkpoints/90", "kind": "learner", "version": 90, "checksum": "0f" * 32}
    learner |= {"decoding": "constrained", "temperature": 0.25}
    seats = {**dict.fromkeys(COUNTRIES, bot), "FRANCE": learner, "ITALY": {**bot, "player": EVIL}}
    origin = {"schema": 1, "seats": seats, "seed": 2**63 - 1, "until_year": 1901, "commit": "af03cf8ed91"}
    document = {**to_saved_game_format(game), "entente": {**origin, "package_version": "0.1.0"}}
    (folder / "game.json").write_text(json.dumps(document))
    write_viewer(folder / "game.json", folder / "game.html")
    return folder / "game.html"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, viewer: Path) -> Path:
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
        for against in ("random", "greedy", "dumbbot")[: 1 if mean < 5 else 3]:
            row = {**scores, "mean_centers": mean, "mean_centers_ci95": [mean - 0.4, mean + 0.4]}
            head = {"checkpoint": checkpoint, "against": against, "until_year": 1905, "label": "trained"}
            rows.append({**head, **row, "by_country": dict.fromkeys(COUNTRIES, row)})
    saved = folder / "games" / "trained-random"
    saved.mkdir(parents=True)
    shutil.copy(viewer.with_suffix(".json"), saved / "FRANCE.json")
    (folder / "summary.json").write_text(json.dumps({"run": "shown", "updates": 20, "evaluations": rows}))
    return write_report(folder, DIPLOMACY)


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_viewer_shows_a_game_offline(browser: Browser, viewer: Path, viewport: dict[str, int], scheme: str) -> None:
    with Visit(browser, viewer, viewport, scheme) as page:
        assert page.inner_text("#phase") == "Spring 1901"
        assert page.locator("#board svg").bounding_box()["width"] > viewport["width"] / 2  # type: ignore[index]
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        assert page.locator("#powers tr").count() == 7


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_all_seven_countries_are_seen_without_scrolling(
    browser: Browser, viewer: Path, viewport: dict[str, int]
) -> None:
    with Visit(browser, viewer, viewport) as page:
        for place in range(4):
            page.locator("#slider").fill(str(place))
            rows = page.locator("#powers tr")
            assert sorted(row.get_attribute("data-power") for row in rows.all()) == sorted(COUNTRIES)  # type: ignore[type-var]
            for row in rows.all():
                box = row.bounding_box()
                assert box is not None
                assert box["y"] >= 0
                assert box["y"] + box["height"] <= viewport["height"]
            assert page.evaluate("scrollY") == 0


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_the_chart_of_centres_has_numbers_on_both_axes(
    browser: Browser, viewer: Path, viewport: dict[str, int]
) -> None:
    with Visit(browser, viewer, viewport) as page:
        page.wait_for_selector("#chart text.year")
        assert page.locator("#chart text.centers").all_text_contents() == ["0", "6", "12", "18"]
        assert page.locator("#chart text.year").all_text_contents() == ["1901", "1902"]
        places = [page.locator(f"#chart path[data-power={name}]").get_attribute("d") for name in COUNTRIES]
        assert len(set(places)) == 7, "no line hides another"
        strokes = page.locator("#chart path.course").evaluate_all("paths => paths.map(p => getComputedStyle(p).stroke)")
        assert len(set(strokes)) == 7


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_viewer_says_who_played(browser: Browser, viewer: Path, viewport: dict[str, int]) -> None:
    with Visit(browser, viewer, viewport) as page:
        facts = page.inner_text("#origin-facts")
        assert facts == "seed 9223372036854775807 · to the end of 1901 · commit af03cf8ed91 · Entente 0.1.0"
        rows = [row.inner_text().split("\t") for row in page.locator("#origin-seats tr").all()]
        learner = ["France", "demo/checkpoints/90", "learner", "90 updates", "constrained, temperature 0.25", "0f" * 32]
        assert [[cell.strip() for cell in row] for row in rows if row[0].strip() == "France"] == [learner]
        assert [row[1] for row in rows if row[0].strip() == "Italy"] == [EVIL], "shown as text"
        assert page.locator("img").count() == 0
        assert page.locator("#powers tr[data-power=FRANCE]").inner_text().split() == ["France", "demo", "v90", "3", "3"]


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_a_game_with_press_shows_letters_promises_and_alliances(
    browser: Browser, tmp_path: Path, viewport: dict[str, int]
) -> None:
    world = Diplomacy(GameSettings(until_year=1901, press_rounds=2))
    game = world.new_game("", "FRANCE", 4)
    names = dict(zip(COUNTRIES, ("breaker", "honest", "honest", "keeper", "stabber", "breaker", "honest"), strict=True))
    run_in_loop(lambda: play_game(game, {power: world.make_bot(name) for power, name in names.items()}, 4))
    game.save(tmp_path / "game.json")
    story = press_story(json.loads(game.saved()), "game")
    assert story is not None
    write_viewer(tmp_path / "game.json", tmp_path / "game.html", press_story)
    with Visit(browser, tmp_path / "game.html", viewport) as page:
        for phase in ("S1901M", "F1901M"):
            assert page.inner_text("#place") == phase
            shown = page.inner_text("#press")
            assert story.meanings[phase]
            for (_, line), meant in story.meanings[phase].items():
                assert f"{line} ({meant})" in shown
            for end, text in (("kept", "kept"), ("broken", "broken"), ("untested", "nothing could break it")):
                shown = page.locator(f"#press .promise.{end}").all_inner_texts()
                told = [each for each in story.promises[phase] if (each[3] or "untested") == end]
                assert shown == [text] * len(told)
            page.click("#next")
        cells = {
            (giver, partner): page.locator("#deals-pairs tr").nth(row).locator("td").nth(column).inner_text()
            for row, giver in enumerate(COUNTRIES)
            for column, partner in enumerate(COUNTRIES)
            if giver != partner
        }
        assert cells == {
            pair: f"{kept} of {kept + broken}" if kept + broken else "\u2013"
            for pair, (kept, broken, *_) in story.pairs.items()
        }
        assert page.inner_text("#alliances") == f"1901: {', '.join(story.alliances[1901]) or 'none'}"
        page.click("#trust summary")
        assert page.locator("#trust-head th").all_inner_texts() == ["1901"]
        rows = zip(
            page.locator("#trust-pairs th").all_inner_texts(),
            page.locator("#trust-pairs td").all_inner_texts(),
            strict=True,
        )
        assert dict(rows) == {
            f"{giver.title()} to {partner.title()}": f"{kept} of {kept + broken}"
            for (giver, partner), (kept, broken) in story.trust[1901].items()
        }
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_a_game_without_a_record_is_shown(browser: Browser, viewer: Path, tmp_path: Path) -> None:
    document = json.loads(viewer.with_suffix(".json").read_text())
    del document["entente"]
    (tmp_path / "old.json").write_text(json.dumps(document))
    write_viewer(tmp_path / "old.json", tmp_path / "old.html")
    with Visit(browser, tmp_path / "old.html", LAPTOP) as page:
        assert page.inner_text("#origin-facts") == "This file does not say who played."
        assert page.locator("#origin-scroll").is_hidden()
        assert page.locator("#powers tr").count() == 7
        assert page.locator("#deals").is_hidden()


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


@pytest.mark.parametrize("box", [".orders", "#origin-scroll"])
def test_the_keys_of_a_focused_box_scroll_it(browser: Browser, viewer: Path, box: str) -> None:
    with Visit(browser, viewer, LAPTOP) as page:
        page.locator(box).focus()
        for key in ("End", "ArrowRight"):
            page.keyboard.press(key)
        assert page.inner_text("#place") == "S1901M"
        page.locator("#slider").focus()
        page.keyboard.press("End")
        assert page.inner_text("#place") == "S1902M"


def test_every_column_of_the_tables_names_its_scope(browser: Browser, viewer: Path) -> None:
    with Visit(browser, viewer, LAPTOP) as page:
        assert page.locator("th").count() == page.locator('th[scope="col"]').count() == 10


def test_playing_stops_at_the_end(browser: Browser, viewer: Path) -> None:
    with Visit(browser, viewer, LAPTOP) as page:
        page.keyboard.press("Space")
        assert page.get_attribute("#play", "aria-label") == "Pause"
        expect(page.locator("#place")).to_have_text("S1902M", timeout=30_000)
        assert page.get_attribute("#play", "aria-label") == "Play"


def test_orders_and_results_are_listed(browser: Browser, viewer: Path) -> None:
    with Visit(browser, viewer, LAPTOP) as page:
        side = page.inner_text("#orders")
        assert "A PAR - BUR" in side
        assert "bounce" in side


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
            page.wait_for_selector(f"[id='{name}'] path.js-line", state="attached")
        # One evaluation of the first checkpoint and three of the last, with an interval each.
        assert page.locator("#country-FRANCE .errorbar").count() == 4
        expect(page.locator("#against-random .bars .point")).to_have_count(14)
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        assert "+2.00" in page.locator(".headline").first.inner_text()


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_markers_of_one_checkpoint_do_not_hide_one_another(
    browser: Browser, report: Path, viewport: dict[str, int]
) -> None:
    with Visit(browser, report, viewport) as page:
        page.wait_for_selector("#country-FRANCE .errorbar", state="attached")
        boxes = [point.bounding_box() for point in page.locator("#country-FRANCE path.point").all()]
        diamonds = sorted((box["x"], box["x"] + box["width"]) for box in boxes if box and box["width"] > 7)
        assert len(diamonds) == 4
        assert all(end <= start for (_, end), (start, _) in pairwise(diamonds))


def test_an_even_share_is_drawn(browser: Browser, report: Path) -> None:
    with Visit(browser, report, LAPTOP) as page:
        for name in ("country-all", "country-FRANCE", "against-random"):
            page.wait_for_selector(f"#{name} .shapelayer path", state="attached")
            assert page.locator(f"#{name} .annotation-text").all_text_contents() == ["4.86"]
        page.wait_for_selector("#learning-loss path.js-line", state="attached")
        assert page.locator("#learning-loss .shapelayer path").count() == 0
        assert "an even share" in page.inner_text("tr.apart")


def test_a_wide_table_scrolls_on_a_phone(browser: Browser, report: Path) -> None:
    with Visit(browser, report, PHONE) as page:
        box = page.get_by_role("region", name="Evaluations")
        assert box.evaluate("box => box.scrollWidth > box.clientWidth")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        last = box.locator("th").last
        assert last.bounding_box()["x"] > PHONE["width"]  # type: ignore[index]
        box.focus()
        for _ in range(30):
            page.keyboard.press("ArrowRight")
        page.wait_for_function(
            "box => box.scrollLeft + box.clientWidth >= box.scrollWidth - 2", arg=box.element_handle()
        )
        assert last.bounding_box()["x"] < PHONE["width"]  # type: ignore[index]


def test_report_links_to_a_page_of_its_game(browser: Browser, report: Path) -> None:
    with Visit(browser, report, LAPTOP) as page:
        link = page.locator("#games a")
        assert link.inner_text() == "France against random"
        target = report.parent / str(link.get_attribute("href"))
    with Visit(browser, target, LAPTOP) as page:
        assert page.inner_text("#phase") == "Spring 1901"
        assert "demo/checkpoints/90" in page.inner_text("#origin-seats")


def test_charts_follow_the_browsers_colour_scheme(browser: Browser, report: Path) -> None:
    with Visit(browser, report, LAPTOP) as page:
        bar = page.locator("#country-FRANCE .errorbar path").first
        bar.wait_for(state="attached")
        light = bar.evaluate("(path) => getComputedStyle(path).stroke")
        page.emulate_media(color_scheme="dark")
        expect(bar).not_to_have_css("stroke", light)
