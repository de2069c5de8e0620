"""The page to play on, in a real Chromium: a whole game by clicks, forks, reloads and restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from services.environments.diplomacy.game import DiplomacyGame
from tests.system.support.play_server import PlayServer, write_small_policy

pytestmark = pytest.mark.system

LAPTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
LIMIT_MS = 120_000  # of every wait: far above what a busy machine takes
MOST_PHASES = 80


@pytest.fixture(scope="module", autouse=True)
def patient() -> None:
    expect.set_options(timeout=LIMIT_MS)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_policy(tmp_path_factory.mktemp("policy") / "small")


class Table:
    """The page, the problems that the browser reported, and what a person does there."""

    def __init__(self, browser: Browser, server: PlayServer, viewport: dict[str, int] = LAPTOP) -> None:
        self.problems: list[str] = []
        self.server = server
        self.is_away = False  # while the server is, requests fail
        context: BrowserContext = browser.new_context(viewport=viewport, accept_downloads=True)  # type: ignore[arg-type]
        context.set_default_timeout(LIMIT_MS)
        self.context, self.page = context, context.new_page()
        self.page.on("console", lambda message: self._note(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))
        self.places: dict[str, tuple[float, float]] = json.loads(server.request("GET", "/api/board")[1])["places"]
        self.page.goto(server.address)
        self.ready()

    def __enter__(self) -> Table:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.context.close()
        if kind is None:
            assert self.problems == []

    def _note(self, text: str) -> None:
        if not self.is_away:
            self.problems.append(text)

    def _asked(self, url: str) -> None:
        if not url.startswith((f"http://127.0.0.1:{self.server.port}/", "data:", "blob:")):
            self.problems.append(f"asked for {url}")

    def ready(self) -> None:
        self.page.wait_for_selector("#stage:not([hidden])")

    @property
    def phase(self) -> str:
        return self.page.inner_text("#place")

    def line(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.server.request("GET", f"/api/lines/{self.number()}")[1])
        return found

    def number(self) -> int:
        return int(self.page.input_value("#lines"))

    def entered(self) -> list[str]:
        """The orders that the page shows as entered, by unit."""
        return self.page.locator("#units .unit-row").evaluate_all("rows => rows.map(row => row.textContent)")

    def click(self, selector: str) -> None:
        self.page.click(selector)

    def click_map(self, place: str) -> None:
        """Click where a unit in ``place`` stands."""
        x, y = self.places[place]
        script = """([x, y]) => {
            const svg = document.querySelector("#board svg");
            const point = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
            return [point.x, point.y];
        }"""
        self.page.mouse.click(*self.page.evaluate(script, [x, y]))

    def order_all(self) -> None:
        """Click the first listed order of every unit, in turn the first, second and third one."""
        given = self.page.locator("#units .given").count()
        for number in range(40):
            row = self.page.locator("#units button.unit-row:has(.open)").first
            choices = self.page.locator("#choices-list > .choice-group button")
            if not self.page.locator("#units .open", has_text="no order").count() or not choices.count():
                return
            if row.get_attribute("aria-pressed") != "true":
                row.click()
            choices.nth((number + len(self.phase) + int(self.phase[4])) % choices.count()).click()
            expect(self.page.locator("#units .given")).to_have_count(given + number + 1)
        raise AssertionError(f"orders of {self.phase} have no end")

    def submit(self) -> None:
        """Give the orders, and wait for the next phase with a decision, or the end."""
        before = self.phase
        self.click("#submit")
        self.page.wait_for_function(
            "was => document.querySelector('#place').textContent !== was"
            " && (!document.querySelector('#orders').hidden || !document.querySelector('#extend').hidden"
            " || !document.querySelector('#watch').hidden)",
            arg=before,
        )

    def over(self) -> bool:
        return not self.page.is_hidden("#extend")

    def look_at(self, phase: str) -> None:
        while self.phase != phase:
            self.click("#back")


def start(policy: Path, games: Path, *arguments: str) -> PlayServer:
    return PlayServer(games, "--player", f"small={policy}", "--default", "small", *arguments)


def test_a_whole_game_by_clicks_a_fork_a_reload_and_a_killed_server(
    browser: Browser, policy: Path, tmp_path: Path
) -> None:
    with (
        start(policy, tmp_path / "games", "--seat", "FRANCE=person", "--until", "1910") as server,
        Table(browser, server) as table,
    ):
        page = table.page
        # The first orders are given on the map: a unit, then where it goes.
        table.click_map("PAR")
        table.click_map("BUR")
        expect(page.locator("[data-unit=PAR]")).to_contain_text("- BUR")
        table.click_map("MAR")
        page.locator("#modes [data-mode=support]").click()
        table.click_map("PAR")
        table.click_map("BUR")
        expect(page.locator("[data-unit=MAR]")).to_contain_text("S A PAR - BUR")
        table.click_map("BRE")
        table.click_map("MAO")
        expect(page.locator("[data-unit=BRE]")).to_contain_text("- MAO")
        table.submit()
        for _ in range(MOST_PHASES):
            if table.over() or not page.is_hidden("#watch"):
                break
            table.order_all()
            table.submit()
        while not table.over():  # France may be eliminated: then its player watches
            before = table.phase
            page.click("#step")
            page.wait_for_function("was => document.querySelector('#place').textContent !== was", arg=before)
        assert "The game is over" in page.inner_text("#status")
        first = table.line()
        assert first["present"]["phase"][1:5] == "1911"
        assert [phase["phase"] for phase in first["past"]][:2] == ["S1901M", "F1901M"]
        assert {"A MAR S A PAR - BUR", "A PAR - BUR", "F BRE - MAO"} == set(first["past"][0]["orders"]["FRANCE"])
        assert first["past"][0]["players"] == {**dict.fromkeys(first["seats"], "small"), "FRANCE": "person"}
        saved = json.loads((server.games_dir / "line-1.json").read_text())
        assert DiplomacyGame.load(server.games_dir / "line-1.json", 1910).is_done

        table.look_at("S1903M")
        table.click("#fork")
        page.wait_for_function("() => document.querySelector('#lines').value === '2'")
        expect(page.locator("#orders")).to_be_visible()
        assert table.phase == "S1903M"
        assert json.loads((server.games_dir / "line-1.json").read_text()) == saved
        table.click("#clear")
        expect(page.locator("#undo")).to_be_disabled()
        page.locator("#units button.unit-row").first.click()
        page.locator("#choices-list > .choice-group button").first.click()
        expect(page.locator("#units .given")).to_have_count(1)
        half = table.entered()

        page.reload()
        table.ready()
        expect(page.locator("#units .given")).to_have_count(1)
        assert (table.number(), table.entered(), table.phase) == (2, half, "S1903M")

        table.is_away = True
        server.kill()
        expect(page.locator("#connection")).to_contain_text("lost")
        server.start()
        expect(page.locator("#connection")).to_have_text("")
        table.is_away = False
        assert (table.number(), table.entered(), table.phase) == (2, half, "S1903M")
        assert server.state()["line-1.json"] == json.dumps(saved, separators=(",", ":")).encode() + b"\n"
        table.submit()
        forked = table.line()
        assert forked["past"][: forked["count"] - 1][:4] == first["past"][:4]
        assert forked["count"] > 4


def test_every_control_works(browser: Browser, policy: Path, tmp_path: Path) -> None:
    with start(policy, tmp_path / "games", "--until", "1902") as server:
        server.request("POST", "/api/lines", json.dumps(
            {"seats": dict.fromkeys(("AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY"), "small"),
             "until": "1901", "seed": 5}).encode())  # fmt: skip
        with Table(browser, server) as table:
            page = table.page
            # Seven policies play, and are watched.
            expect(page.locator("#status")).to_contain_text("You watch")
            page.click("#step")
            page.wait_for_function("() => document.querySelector('#place').textContent === 'F1901M'")
            page.select_option("#speed", "150")
            page.click("#play")
            expect(page.locator("#extend")).to_be_visible()
            expect(page.locator("#status")).to_contain_text("1901 is over")
            page.fill("#until", "1902")
            page.click("#extend button")
            expect(page.locator("#watch")).to_be_visible()
            # A person takes Italy over, and hands it to a bot again.
            seat = page.locator("tr[data-power=ITALY] select")
            seat.select_option("person")
            expect(page.locator("#orders")).to_be_visible()
            assert "Italy" in page.inner_text("#status")
            page.click("#hints summary")
            page.select_option("#hint-player", "small")
            page.click("#ask")
            expect(page.locator("#hint-list li")).to_have_count(5)
            page.locator("#hint-list li button").first.click()
            expect(page.locator("#units .open")).to_have_count(0)
            page.select_option("#hint-player", "greedy")
            page.click("#ask")
            expect(page.locator("#hint-note")).to_contain_text("Shares of 40 tries")
            page.click("#undo")
            expect(page.locator("#units .open", has_text="no order")).to_have_count(1)
            page.locator("#units .away").first.click()
            expect(page.locator("#units .open", has_text="no order")).to_have_count(2)
            page.fill("#order", "a rom - tus")
            page.keyboard.press("Enter")
            expect(page.locator("#units .given")).not_to_have_count(0)
            seat.select_option("hold")
            expect(page.locator("#watch")).to_be_visible()
            page.uncheck("#show-names")
            page.uncheck("#show-orders")
            # Games are saved, loaded and begun.
            with page.expect_download() as download:
                page.click("#save")
            download.value.save_as(tmp_path / "saved.json")
            assert DiplomacyGame.load(tmp_path / "saved.json", 1902).phase == "S1902M"
            page.set_input_files("#load", tmp_path / "saved.json")
            page.wait_for_function("() => document.querySelector('#lines').value === '2'")
            assert table.phase == "S1902M"
            page.click("#new")
            page.select_option("#setup-you", "TURKEY")
            page.select_option("#setup-others", "dumbbot")
            page.fill("#setup-until", "1901")
            page.click("#setup-begin")
            page.wait_for_function("() => document.querySelector('#lines').value === '3'")
            expect(page.locator("#units .unit-row")).to_have_count(3)
            assert page.locator("tr[data-power=FRANCE] select").input_value() == "dumbbot"
            page.select_option("#lines", "1")
            expect(page.locator("#watch")).to_be_visible()


def test_retreats_disbands_and_builds_by_clicks(browser: Browser, policy: Path, tmp_path: Path) -> None:
    game = DiplomacyGame(1901)
    game.set_orders("AUSTRIA", ("A VIE - TYR", "F TRI H", "A BUD - SER"))
    game.process()
    game.set_orders("AUSTRIA", ("A TYR - VEN", "F TRI S A TYR - VEN", "A SER H"))
    game.process()
    assert game.phase == "F1901R"
    game.save(tmp_path / "retreat.json")
    with (
        start(policy, tmp_path / "games", "--seat", "ITALY=person", "--until", "1902") as server,
        Table(browser, server) as table,
    ):
        page = table.page
        page.set_input_files("#load", tmp_path / "retreat.json")
        page.wait_for_function("() => document.querySelector('#place').textContent === 'F1901R'")
        # Italy's army in Venice has to go.
        expect(page.locator("#units .unit-row")).to_have_count(1)
        assert page.locator("#choices-list > .choice-group button").all_inner_texts() == [
            "A VEN R APU", "A VEN R PIE", "A VEN R TUS", "A VEN D",
        ]  # fmt: skip
        table.click_map("VEN")
        table.click_map("APU")
        expect(page.locator("[data-unit=VEN]")).to_contain_text("APU")
        table.submit()
        # It lost Venice and has a unit too many.
        assert table.phase == "W1901A"
        table.click_map("NAP")
        expect(page.locator("[data-unit=NAP] .given")).to_have_count(1)
        # Austria is taken over, and builds.
        page.select_option("tr[data-power=AUSTRIA] select", "person")
        page.locator("#seats button", has_text="Austria").click()
        table.click_map("VIE")
        expect(page.locator("[data-unit=VIE] .given")).to_have_count(1)
        table.submit()
        past = {phase["phase"]: phase["orders"] for phase in table.line()["past"]}
        assert past["F1901R"]["ITALY"] == ["A VEN R APU"]
        assert past["W1901A"]["ITALY"] == ["F NAP D"]
        assert "A VIE B" in past["W1901A"]["AUSTRIA"]


def test_a_phase_by_keyboard_alone(browser: Browser, policy: Path, tmp_path: Path) -> None:
    with (
        start(policy, tmp_path / "games", "--seat", "TURKEY=person", "--default", "hold") as server,
        Table(browser, server) as table,
    ):
        page = table.page
        page.keyboard.press("Tab")
        for _ in range(60):
            if page.evaluate("document.activeElement.dataset.unit"):
                break
            page.keyboard.press("Tab")
        for given in range(1, 4):  # after an order the focus is at the next unit, whose orders follow
            for _ in range(30):
                page.keyboard.press("Tab")
                if page.evaluate("document.activeElement.dataset.order ?? null"):
                    break
            assert page.evaluate("document.activeElement.getAttribute('aria-label')")
            page.keyboard.press("Enter")
            expect(page.locator("#units .given")).to_have_count(given)
        page.keyboard.press("Control+z")
        expect(page.locator("#units .given")).to_have_count(2)
        page.keyboard.press("Control+Enter")
        expect(page.locator("#place")).to_have_text("F1901M")
        expect(page.locator("#happened")).to_contain_text("Turkey")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_on_a_phone(browser: Browser, policy: Path, tmp_path: Path, scheme: str) -> None:
    with (
        start(policy, tmp_path / "games", "--seat", "FRANCE=person", "--default", "hold") as server,
        Table(browser, server, PHONE) as table,
    ):
        page = table.page
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        for button in page.locator("button:visible, select:visible").all():
            box = button.bounding_box()
            assert box is not None
            assert box["height"] >= 24
        assert page.locator("#board").get_attribute("aria-label").startswith("Map, Spring 1901. Austria: ")  # type: ignore[union-attr]
        unnamed = "nodes => nodes.filter(node => !(node.textContent.trim() || node.ariaLabel)).length"
        assert page.locator("button:visible").evaluate_all(unnamed) == 0
