"""The story of a saved game's letters agrees with what conduct and alliances count."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from opponents.play import play_game
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.measures.press.alliances import alliances_by_year, called
from services.environments.diplomacy.measures.press.conduct import conduct, conduct_by_year
from services.environments.diplomacy.measures.press.story import press_story
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.saved_game import SavedGameError
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.world import Diplomacy

TALKERS = ("honest", "keeper", "breaker", "stabber", "chatter", "honest", "breaker")
WORLD = Diplomacy(GameSettings(until_year=1903, press_rounds=2))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    game = WORLD.new_game("", "FRANCE", 4)
    assert isinstance(game, DiplomacyGame)
    seats = {power: WORLD.make_bot(name) for power, name in zip(POWERS, TALKERS, strict=True)}
    asyncio.run(play_game(game, seats, 4))
    found: dict[str, Any] = json.loads(game.saved())
    return found


def test_a_story_agrees_with_conduct_and_alliances(document: dict[str, Any]) -> None:
    story = press_story(document, "game")
    assert story is not None
    counted = conduct(document, "game")
    assert {pair: told[:2] for pair, told in story.pairs.items()} == {
        pair: (own.promises_kept, own.promises_broken) for pair, own in counted.items()
    }
    assert sum(broken for _, broken, *_ in story.pairs.values()) > 3
    years = alliances_by_year(document, "game")
    assert story.alliances == {year: tuple(map(called, found)) for year, found in years.items()}
    assert any(story.alliances.values())
    assert list(story.trust) == list(years)
    for year, counts in conduct_by_year(document, "game").items():
        own = {pair: (each.promises_kept, each.promises_broken) for pair, each in counts.items()}
        assert story.trust[year] == {pair: count for pair, count in own.items() if any(count)}


def test_every_broken_promise_of_a_pair_is_told_in_its_phase(document: dict[str, Any]) -> None:
    story = press_story(document, "game")
    assert story is not None
    assert {phase[-1] for phase in story.promises} == {"M"}
    broken = Counter(
        (giver, partner) for told in story.promises.values() for giver, partner, _, end in told if end == "broken"
    )
    assert broken.keys() == {pair for pair, (_, lies, *_) in story.pairs.items() if lies}
    texts = {what for told in story.promises.values() for _, _, what, _ in told}
    assert "peace" in texts
    assert {end for told in story.promises.values() for *_, end in told} == {"kept", "broken", ""}


def test_compact_lines_are_told_in_english_and_no_other_text_is(document: dict[str, Any]) -> None:
    first, *rest = document["phases"]
    lines = {
        "PEACE": "Let us have peace until the end of the year.",
        "WILL A PAR - BUR": "I will move my army in Paris to Burgundy.",
        "DMZ BUR": "Let us both stay out of Burgundy until the end of the year.",
    }
    text = "\n".join([*lines, "WILL A PAR - MOS", "Let us be allies against Italy.", "DMZ XXX"])
    letter = {"sender": "FRANCE", "recipient": "GERMANY", "message": text, "time_sent": 1, "phase": "S1901M"}
    story = press_story({**document, "phases": [{**first, "messages": [letter]}, *rest]}, "game")
    assert story is not None
    assert story.meanings["S1901M"] == {("FRANCE", line): meant for line, meant in lines.items()}


def test_every_line_of_powers_that_use_the_compact_language_is_told_in_english(document: dict[str, Any]) -> None:
    story = press_story(document, "game")
    assert story is not None
    for phase in document["phases"]:
        written = {(each["sender"], line) for each in phase["messages"] for line in each["message"].split("\n")}
        assert {*story.meanings.get(phase["name"], ())} <= written
        assert {key for key in written if key[1] in ("PEACE", "ACCEPT", "REJECT", "DRAW")} <= {
            *story.meanings.get(phase["name"], ())
        }


@pytest.mark.parametrize("orders", [["A PAR S A PIC", "A MAR S A PAR - BUR"], ["A PAR"], ["A PAR -"], ["B PAR - BUR"]])
def test_orders_that_are_not_legal_count_nothing(document: dict[str, Any], orders: list[str]) -> None:
    first, *rest = document["phases"]
    changed = {**first, "orders": {**first["orders"], "FRANCE": orders}}
    held = {**first, "orders": {**first["orders"], "FRANCE": [each for each in orders if each.startswith("A MAR")]}}
    for told in (changed, held):
        assert press_story({**document, "phases": [told, *rest]}, "game") is not None
    assert press_story({**document, "phases": [changed, *rest]}, "game") == press_story(
        {**document, "phases": [held, *rest]}, "game"
    )


def test_a_game_without_letters_has_no_story_and_a_damaged_one_is_refused(document: dict[str, Any]) -> None:
    silent = {**document, "phases": [{**phase, "messages": []} for phase in document["phases"]]}
    assert press_story(silent, "silent") is None
    assert press_story({}, "nothing") is None
    damaged = {**document, "phases": [{**document["phases"][0], "messages": [{"sender": 3}]}]}
    with pytest.raises(SavedGameError, match=r"broken\.json: messages before S1901M"):
        press_story(damaged, "broken.json")


def test_a_demilitarised_province_forbids_moves_into_it_not_units_that_stay(document: dict[str, Any]) -> None:
    first, *rest = document["phases"]
    letters = [
        {"sender": sender, "recipient": recipient, "message": "DMZ PAR", "time_sent": 1, "phase": "S1901M"}
        for sender, recipient in (("FRANCE", "GERMANY"), ("GERMANY", "FRANCE"))
    ]
    orders = {**first["orders"], "FRANCE": ["A PAR H"], "GERMANY": []}
    story = press_story({**document, "phases": [{**first, "messages": letters, "orders": orders}, *rest]}, "game")
    assert story is not None
    told = {(giver, what): end for giver, _, what, end in story.promises["S1901M"]}
    assert told.keys() == {("FRANCE", "no move into PAR"), ("GERMANY", "no move into PAR")}
    assert told["FRANCE", "no move into PAR"] != "broken"
