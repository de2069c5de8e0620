"""A phase comes out as the engine has it, whatever is ordered."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.environments.diplomacy.bots.compiled.board import board
from services.environments.diplomacy.bots.compiled.later_phases import advance
from services.environments.diplomacy.bots.compiled.order_text import movement_texts
from services.environments.diplomacy.bots.compiled.state import ADJUSTMENTS, State, no_orders, read_state
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import Position
from tests.unit.services.environments.diplomacy.bots.compiled.phases import STYLES, Phase, as_arrays, phases


def after(position: Position, orders: list[str], following: str) -> State:
    state = read_state(position)
    advance(board(), state, as_arrays(orders))
    if state.clock[1] == ADJUSTMENTS and not following.endswith("A"):
        advance(board(), state, no_orders(len(state.unit)))  # the engine leaves out adjustments that change nothing
    return state


def assert_equal(found: State, wanted: State, what: object) -> None:
    for name in ("unit", "power", "dislodged", "dislodged_power", "owner", "clock"):
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), (name, what)
    there = wanted.dislodged >= 0
    assert np.array_equal(found.retreats[there], wanted.retreats[there]), what


def helps_against_itself(phase: Phase) -> bool:
    """Whether two units attack each other, and a power supports the attack on its own one.

    The engine then takes the supports that a unit gets from the power that it attacks from its strength of defence as
    well, which the rules do not.
    """
    orders = {order: power for power, orders in phase.sheets.items() for order in orders}
    moves = {order[2:5]: order.rpartition(" - ")[2][:3] for order in orders if " - " in order and " S " not in order}
    owners = {unit[2:5]: power for power, units in phase.position.units.items() for unit in units}
    helped = {
        order.partition(" S ")[2][2:5]
        for order, power in orders.items()
        if " S " in order and owners.get(order.rpartition(" - ")[2][:3]) == power
    }
    return any(start in helped and moves.get(aim) == start for start, aim in moves.items())


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from(STYLES))
def test_a_phase_comes_out_as_in_the_engine(seed: int, style: str) -> None:
    for phase in phases(seed, style, 25):
        if phase.position.kind == "M" and helps_against_itself(phase):
            continue
        orders = [order for sheet in phase.sheets.values() for order in sheet]
        found = after(phase.position, orders, phase.following.phase)
        assert_equal(found, read_state(phase.following), (phase.position.phase, phase.sheets))


def test_most_phases_are_compared_and_all_kinds_of_them() -> None:
    found = [phase for style in STYLES for phase in phases(7, style, 60)]
    assert {phase.position.kind for phase in found} == {"M", "R", "A"}
    left_out = sum(phase.position.kind == "M" and helps_against_itself(phase) for phase in found)
    assert left_out < len(found) / 20


@pytest.mark.parametrize("style", STYLES)
def test_orders_go_to_text_and_back(style: str) -> None:
    for phase in phases(3, style, 12):
        if phase.position.kind == "M":
            texts = movement_texts(read_state(phase.position), as_arrays(o for s in phase.sheets.values() for o in s))
            for power, orders in phase.sheets.items():
                for order, text in zip(sorted(orders), sorted(texts[power]), strict=True):
                    # Supports of what is not ordered may come back as supports of what is: both do nothing.
                    assert order == text or (" S " in order and " S " in text)
                    again, once = as_arrays([text]), as_arrays([order])
                    assert again.kind.tolist() == once.kind.tolist()


def adjudicated(phase: str, units: dict[str, list[str]], orders: list[str]) -> dict[str, list[str]]:
    """Where the units of each power stand after orders, from a position without centres."""
    state = {"name": phase, "units": units, "retreats": {}, "centers": {}}
    position = DiplomacyGame.from_state(state, 1999).position
    found = after(position, orders, "R")
    still = no_orders(len(found.unit))
    return {power: list(texts) for power, texts in movement_texts(found, still).items() if texts}


def test_units_move_in_a_ring() -> None:
    units = {"TURKEY": ["F ANK", "A CON", "A SMY"]}
    moved = adjudicated("S1901M", units, ["F ANK - CON", "A CON - SMY", "A SMY - ANK"])
    assert moved == {"TURKEY": ["A ANK H", "F CON H", "A SMY H"]}


def test_a_ring_with_an_intruder_stands() -> None:
    units = {"TURKEY": ["F ANK", "A CON", "A SMY", "A BUL"]}
    orders = ["F ANK - CON", "A CON - SMY", "A SMY - ANK", "A BUL - CON"]
    assert adjudicated("S1901M", units, orders) == {"TURKEY": ["F ANK H", "A BUL H", "A CON H", "A SMY H"]}


def test_units_do_not_change_places() -> None:
    units = {"ITALY": ["A ROM"], "AUSTRIA": ["A VEN"]}
    orders = ["A ROM - VEN", "A VEN - ROM"]
    assert adjudicated("S1901M", units, orders) == {"AUSTRIA": ["A VEN H"], "ITALY": ["A ROM H"]}
