"""What episodes say of pairs of powers agrees with the conduct and the alliances in the saved games."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from opponents.play import play_game
from services.environments.diplomacy.measures.press.alliances import alliances_by_year
from services.environments.diplomacy.measures.press.conduct import conduct
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.pairs import PAIR_MEASURES
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.world import Diplomacy

TALKERS = ("honest", "keeper", "breaker", "stabber", "chatter", "honest", "dumbbot")
COUNTS = {count for each in PAIR_MEASURES for count in (each.part, each.whole)}


def played(press_rounds: int) -> tuple[dict[str, dict[str, float]], dict[str, Any]]:
    world = Diplomacy(GameSettings(until_year=1906, press_rounds=press_rounds))
    game = world.new_game("", "FRANCE", 2)
    seats = {power: world.make_bot(name) for power, name in zip(POWERS, TALKERS, strict=True)}
    outcomes = asyncio.run(play_game(game, seats, 2)).result.outcomes
    return {power: dict(outcomes[power]) for power in POWERS}, json.loads(game.saved())


@pytest.fixture(scope="module")
def game() -> tuple[dict[str, dict[str, float]], dict[str, Any]]:
    return played(2)


def of_pairs(outcome: dict[str, float], count: str) -> dict[str, float]:
    return {name.partition("/")[2]: value for name, value in outcome.items() if name.startswith(f"{count}/")}


def test_promises_are_those_of_the_saved_game(game: Any) -> None:
    outcomes, document = game
    pairs = conduct(document, "game")
    assert sum(own.promises_broken for own in pairs.values()) > 3
    for power in POWERS:
        for other in set(POWERS) - {power}:
            given, got = pairs[power, other], pairs[other, power]
            counts = {count: of_pairs(outcomes[power], count).get(other, 0) for count in COUNTS}
            assert counts["promises_kept_to"] == given.promises_kept
            assert counts["promises_to"] == given.promises_kept + given.promises_broken
            assert counts["promises_kept_by"] == got.promises_kept
            assert counts["promises_by"] == got.promises_kept + got.promises_broken


def test_years_allied_are_those_of_the_saved_game(game: Any) -> None:
    outcomes, document = game
    years = alliances_by_year(document, "game").values()
    for power in POWERS:
        allied = of_pairs(outcomes[power], "years_allied_with")
        for other in set(POWERS) - {power}:
            together = sum(any({power, other} <= set(alliance) for alliance in year) for year in years)
            assert allied.get(other, 0) == together
            assert of_pairs(outcomes[power], "years_with")[other] <= len(years)
    assert any(of_pairs(outcome, "years_allied_with") for outcome in outcomes.values())


def test_games_without_press_say_nothing_of_pairs() -> None:
    outcomes, _ = played(0)
    assert not any("/" in name for outcome in outcomes.values() for name in outcome)
    assert Diplomacy(GameSettings()).measured.pairs == ()
