"""Replays in a real Chromium, offline: decisions, links to a phase, messages, and two games side by side."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from cluster.evaluation.event_loop import run_in_loop
from cluster.evaluation.records.decision_recorder import DecisionRecorder
from cluster.evaluation.replay import write_replay
from opponents.play import play_game
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.playing import Policy
from services.reports.game_viewer.decisions import Judgement, read_decisions, write_decisions
from tests.system.reports.test_pages import LAPTOP, PHONE, Visit
from tests.unit.opponents.insight.cases import peaked_policy

pytestmark = pytest.mark.system

EVIL = "<img src=x onerror=alert(1)>"
LARGEST = 2_000_000  # bytes of a page
JUDGEMENTS = {
    "S1901M": Judgement(2.0, 1.5, 0.25, "country+phase", "FRANCE, S1901M", 8, 1.2, version=3),
    "F1901M": Judgement(1.0, 1.0, 0.0, "country+phase", "FRANCE, F1901M", 8, 0.0, True, 3),
    "S1902M": Judgement(1.0, None, 0.0, "running", "FRANCE", 1, None, True, 3),
    "F1902M": Judgement(1.0, 1.5, -0.5, "running", "FRANCE", 1, 1.0, version=3),
}


def save(folder: Path, name: str, until: int, temperature: float) -> Path:
    """A game of a policy as France against bots, with its decisions beside it."""
    policy, _ = peaked_policy(temperature)
    recorder = DecisionRecorder()
    seats: dict[str, Policy] = dict.fromkeys(POWERS, make_bot("dumbbot"))
    seats["FRANCE"] = recorder.watched("demo/checkpoints/9", policy)
    game = DiplomacyGame(until, name)
    run_in_loop(lambda: play_game(game, seats, 4))  # the browser's own loop runs in this thread
    file = folder / f"{name}.json"
    document = json.loads(game.saved())
    if name == "one":
        told = {"phase": "F1901M", "sender": "FRANCE", "time_sent": 1}
        document["phases"][1]["messages"] = [
            {**told, "recipient": "ENGLAND", "message": "Peace in the Channel?"},
            {**told, "recipient": "GLOBAL", "message": EVIL},
        ]
    file.write_text(json.dumps(document))
    write_decisions(file, recorder.recorded(name))
    return file


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("games")
    one = save(folder, "one", 1910, 1.0)
    decisions = read_decisions(one)
    assert decisions is not None
    judged = decisions.judged({(phase, "FRANCE"): each for phase, each in JUDGEMENTS.items()})
    thinking = msgspec.structs.replace(judged.decisions[0], thought=f"Spain first {EVIL}")
    write_decisions(one, msgspec.structs.replace(judged, decisions=(thinking, *judged.decisions[1:])))
    other = save(folder, "other", 1903, 0.2)
    return one, other


@pytest.fixture(scope="module")
def replay(games: tuple[Path, Path]) -> Path:
    page = games[0].with_suffix(".html")
    write_replay(games[:1], page)
    return page


@pytest.fixture(scope="module")
def pair(games: tuple[Path, Path]) -> Path:
    """A game and its fork, which goes its own way from F1902M on."""
    one, other = games
    documents = [json.loads(game.read_text()) for game in games]
    phases = documents[0]["phases"]
    place = next(i for i, phase in enumerate(phases) if phase["name"] == "F1902M")
    fork = {**documents[0], "id": "fork", "phases": phases[: place + 1]}
    changed = json.loads(json.dumps(fork))
    last = changed["phases"][-1]
    last["orders"]["TURKEY"] = [f"{unit} H" for unit in last["state"]["units"]["TURKEY"]]
    (other.parent / "fork.json").write_text(json.dumps(changed))
    page = other.parent / "pair.html"
    write_replay([one, other.parent / "fork.json"], page)
    return page


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_decision_shows_what_was_read_and_what_might_have_been(
    browser: Browser,
    games: tuple[Path, Path],
    replay: Path,
    viewport: dict[str, int],
    scheme: str,
) -> None:
    assert replay.stat().st_size < LARGEST
    found = read_decisions(games[0])
    assert found is not None
    first = found.decisions[0]
    with Visit(browser, replay, viewport, scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        assert page.inner_text("#decisions-title") == "France, Spring 1901"
        assert page.inner_text("#decision > p").startswith("Decided by demo/checkpoints/9")
        tables = page.locator("#decision table")
        assert tables.count() == len(first.choices) == 3
        for table, choice in zip(tables.all(), first.choices, strict=True):
            assert f". {choice.chosen} " in table.locator("caption").inner_text()
            marked = table.locator("tr.chosen")
            assert marked.count() == 1
            assert choice.chosen in marked.inner_text()
            shares = [float(text.split()[0]) for text in table.locator("td.share").all_inner_texts()]
            assert sum(shares) == pytest.approx(100, abs=0.6)
            assert table.locator('th[scope="row"]').count() == len(shares)
        for name, text in (("What it read", found.prompt(first)), ("What it thought", first.thought)):
            details = page.locator("#decision details", has_text=name)
            assert not details.locator("pre").is_visible()
            details.locator("summary").press("Enter")
            expect(details.locator("pre")).to_be_visible()
            assert details.locator("pre").inner_text().strip() == text.strip()
        assert page.locator("img").count() == 0, "texts are shown as texts"


def test_a_judgement_is_told_in_figures_and_words(browser: Browser, replay: Path) -> None:
    def figures(page: Page) -> dict[str, str]:
        rows = page.locator(".judgement .figure").all()
        return {row.locator("dt").inner_text(): row.locator("dd").inner_text() for row in rows}

    with Visit(browser, replay, LAPTOP) as page:
        assert figures(page) == {
            "return": "2", "baseline": "1.5", "advantage": "+0.25", "its divisor": "2", "spread of the returns": "1.2",
            "update": "3",
        }  # fmt: skip
        said = page.inner_text(".judgement p")
        assert said.startswith("It returned 0.5 more than the baseline, so the update made it likelier.")
        assert said.endswith("Its group has 8 decisions of the same country, phase: FRANCE, S1901M.")
        open_at(page, "F1901M")
        assert "All returns of its group were equal" in page.inner_text(".judgement p")
        open_at(page, "S1902M")
        assert figures(page)["baseline"] == "none"
        assert "no baseline for it yet" in page.inner_text(".judgement p")
        open_at(page, "F1902M")
        assert "0.5 less than the baseline, so the update made it less likely" in page.inner_text(".judgement p")
        open_at(page, "F1903M")
        assert page.locator(".judgement").count() == 0


def open_at(page: Page, phase: str, power: str = "FRANCE") -> None:
    page.evaluate(f"location.hash = 'phase={phase}&power={power}'")
    expect(page.locator("#place")).to_have_text(phase)


def test_an_address_leads_to_a_phase_and_back_leads_back(browser: Browser, replay: Path) -> None:
    with Visit(browser, replay, LAPTOP) as page:
        page.click("#next")
        page.keyboard.press("ArrowRight")
        place = page.inner_text("#place")
        assert page.evaluate("location.hash") == f"#phase={place}&power=FRANCE"
        page.go_back()
        expect(page.locator("#place")).to_have_text("F1901M")
        page.go_back()
        expect(page.locator("#place")).to_have_text("S1901M")
        page.go_forward()
        expect(page.locator("#place")).to_have_text("F1901M")
        open_at(page, "S1904M")
        assert page.inner_text("#phase") == "Spring 1904"
        assert page.inner_text("#decisions-title") == "France, Spring 1904"
        page.reload()
        expect(page.locator("#place")).to_have_text("S1904M")
        before = page.evaluate("history.length")
        for step in (3, 4, 5, 6):  # as while it is dragged
            page.locator("#slider").evaluate(
                f"slider => {{ slider.value = {step}; slider.dispatchEvent(new Event('input')); }}"
            )
        assert page.evaluate("history.length") == before + 1
        page.go_back()
        expect(page.locator("#place")).to_have_text("S1904M")
        page.evaluate("location.hash = 'phase=S2099M&power=NOWHERE'")
        expect(page.locator("#place")).to_have_text("S1901M")


def test_the_link_is_copied(browser: Browser, replay: Path) -> None:
    with Visit(browser, replay, LAPTOP) as page:
        open_at(page, "S1903M")
        page.click("#copy")
        expect(page.locator("#copied")).to_have_text("Link copied.")
        page.evaluate("document.body.append(Object.assign(document.createElement('textarea'), { id: 'paste' }))")
        page.focus("#paste")
        page.keyboard.press("Control+V")
        assert page.input_value("#paste") == f"{replay.as_uri()}#phase=S1903M&power=FRANCE"


def test_messages_are_shown_in_their_phase(browser: Browser, replay: Path) -> None:
    with Visit(browser, replay, LAPTOP) as page:
        assert page.locator("#press").is_hidden()
        open_at(page, "F1901M")
        lines = page.locator("#press p").all_inner_texts()
        assert lines == ["France to England: Peace in the Channel?", f"France to all: {EVIL}"]


def test_why_leads_from_orders_to_their_decision(browser: Browser, replay: Path) -> None:
    with Visit(browser, replay, LAPTOP) as page:
        why = page.get_by_role("button", name="Why France chose these orders")
        assert page.locator("button.why").count() == 1, "bots are not asked"
        why.press("Enter")
        assert page.evaluate("document.activeElement.id") == "decisions-title"
        assert page.locator("#decisions").bounding_box()["y"] < LAPTOP["height"]  # type: ignore[index]
        assert page.locator("#power option").all_inner_texts() == ["France"]
        page.get_by_label("decisions of").select_option("FRANCE")
        page.get_by_label("decisions of").focus()
        page.keyboard.press("End")  # the list's own key
        assert page.inner_text("#place") == "S1901M"


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_two_games_go_in_step_from_where_they_part(
    browser: Browser,
    pair: Path,
    viewport: dict[str, int],
    scheme: str,
) -> None:
    with Visit(browser, pair, viewport, scheme) as page:
        assert page.inner_text("#place") == "F1902M", "it opens where they part"
        assert page.inner_text("#note") == "They part in F1902M: the orders of Turkey differ."
        assert "they part here" in page.inner_text("#kind")
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        boxes = [board.bounding_box() for board in page.locator(".board").all()]
        assert len(boxes) == 2
        assert boxes[0]["y"] == boxes[1]["y"]  # type: ignore[index]
        assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]  # type: ignore[index]
        assert page.locator(".side-of-pair >> nth=0 >> .differs").count() == 1
        marked = page.locator(".side-of-pair >> nth=1 >> li.different code").all_inner_texts()
        assert marked
        assert all(re.fullmatch(r"[AF] [A-Z/]+ H", order) for order in marked)
        assert page.locator('th:not([scope="col"]):not([scope="row"])').count() == 0


def test_every_control_of_two_games_works(browser: Browser, pair: Path) -> None:
    with Visit(browser, pair, LAPTOP) as page:
        page.get_by_label("only powers whose orders differ").check()
        assert page.locator(".side-of-pair >> nth=0 >> .power").count() == 1
        page.keyboard.press("Home")
        assert page.inner_text("#place") == "S1901M"
        assert page.locator(".power").count() == 0
        page.get_by_label("only powers whose orders differ").uncheck()
        assert page.locator(".side-of-pair >> nth=1 >> .power").count() == 7
        page.get_by_role("button", name="where they part").click()
        assert page.inner_text("#place") == "F1902M"
        assert page.evaluate("location.hash").startswith("#phase=F1902M")
        page.click("#next")
        assert "has no such phase" in page.locator(".absent >> nth=1").inner_text()
        assert page.locator(".absent >> nth=0").inner_text() == ""
        page.go_back()
        expect(page.locator("#place")).to_have_text("F1902M")
        page.get_by_label("orders", exact=True).uncheck()
        hidden = "board => board.shadowRoot.getElementById('OrderLayer').style.display"
        assert [board.evaluate(hidden) for board in page.locator(".board").all()] == ["none", "none"]
        page.get_by_label("province names").check()
        assert "Decided by demo/checkpoints/9" in page.locator(".decisions >> nth=0").inner_text()
        assert "no recorded decision" in page.locator(".decisions >> nth=1").inner_text()
        page.locator("#slider").fill("0")
        page.keyboard.press("Space")
        assert page.get_attribute("#play", "aria-label") == "Pause"
        page.keyboard.press("Space")
        page.click("#copy")
        expect(page.locator("#copied")).to_have_text("Link copied.")


def test_a_page_inside_a_notebook_works_without_an_address(browser: Browser, replay: Path, tmp_path: Path) -> None:
    outer = tmp_path / "notebook.html"
    outer.write_text(
        f'<iframe srcdoc="{html.escape(replay.read_text(), quote=True)}" width="900" height="700"></iframe>'
    )
    with Visit(browser, outer, LAPTOP) as page:
        frame = page.frame_locator("iframe")
        frame.locator("#next").click()
        frame.locator("#next").click()
        frame.locator("#back").click()
        expect(frame.locator("#place")).to_have_text("F1901M")
        expect(frame.locator("#decisions-title")).to_have_text("France, Fall 1901")
