"""The phases of a saved game are what its players saw."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.played_phases import played_phases, saved_phases
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.rules.orders import WAIVE, sheet
from services.environments.diplomacy.saved_game import SavedGameError, read_saved_game

LAST_YEAR = 1904  # with a retreat in spring, from the seed below


def saved_random_game(file: Path) -> tuple[list[Position], list[dict[str, tuple[str, ...]]]]:
    """Play random legal orders, save the game, and return its positions and orders."""
    chance = random.Random(9)
    game = DiplomacyGame(LAST_YEAR)
    positions, orders = [], []
    while not game.is_done:
        positions.append(game.position)
        for power in game.position.to_move:
            game.set_orders(power, [chance.choice(slot.alternatives) for slot in sheet(game.position, power)])
        orders.append({power: given for power, given in game.orders.items() if given})
        game.process()
    game.save(file)
    return positions, orders


def test_positions_orders_and_earlier_phases_are_those_of_the_game(tmp_path: Path) -> None:
    positions, orders = saved_random_game(tmp_path / "game.json")
    phases = list(played_phases(read_saved_game(tmp_path / "game.json"), "game.json"))
    assert {position.kind for position in positions} == {"M", "R", "A"}
    assert [phase.position for phase in phases] == positions
    assert [{power: set(own) for power, own in phase.orders.items()} for phase in phases] == [
        {power: set(own) for power, own in given.items() if own != (WAIVE,)} for given in orders
    ]


def test_a_phase_without_any_order_was_played_unless_it_is_the_last(tmp_path: Path) -> None:
    saved_random_game(tmp_path / "game.json")
    document: dict[str, Any] = dict(read_saved_game(tmp_path / "game.json"))
    document["phases"][1]["orders"] = {}
    names = [phase["state"]["name"] for phase in document["phases"]]
    assert [phase["state"]["name"] for phase in saved_phases(document)] == names[:-1]
    phases = list(played_phases(document, "game.json"))
    assert [phase.position.phase for phase in phases] == names[:-1]
    assert not phases[1].orders


def test_a_phase_that_cannot_be_set_up_is_named(tmp_path: Path) -> None:
    saved_random_game(tmp_path / "game.json")
    document = json.loads((tmp_path / "game.json").read_text())
    document["phases"][2]["state"]["units"] = 7
    name = document["phases"][2]["name"]
    with pytest.raises(SavedGameError, match=rf"game\.json: phase {name}: AttributeError"):
        list(played_phases(document, "game.json"))
