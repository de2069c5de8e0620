"""The compiled bots value places as those in Python do, and choose as often."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from services.environments.diplomacy.bots.compiled.board import board
from services.environments.diplomacy.bots.compiled.dumbbot import entering_units, order_by_dumbbot, place_values
from services.environments.diplomacy.bots.compiled.greedy import order_by_greedy
from services.environments.diplomacy.bots.compiled.playouts import DUMBBOT, GREEDY
from services.environments.diplomacy.bots.compiled.state import HOLD, SUPPORT, Orders, no_orders, read_state
from services.environments.diplomacy.bots.dumbbot import DumbBot
from services.environments.diplomacy.bots.dumbbot_values import values
from services.environments.diplomacy.bots.greedy import GreedyBot
from services.environments.diplomacy.position import POWERS, Position
from services.environments.playing import Bot
from tests.unit.services.environments.diplomacy.bots.compiled.phases import as_arrays, phases

DRAWS = 400


def written(orders: Orders, at: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """The orders at some provinces: for supports without the unit-location, which says no more than the rest."""
    node = np.where(orders.kind == SUPPORT, -1, orders.node)
    return tuple(
        zip(*(entries[at].tolist() for entries in (orders.kind, orders.aim, orders.helped, node)), strict=True)
    )


def ordered(code: int, position: Position, power: int) -> Orders:
    """What a compiled bot orders for one power."""
    state = read_state(position)
    orders, entering = no_orders(len(state.unit)), entering_units(board(), state)
    if code == GREEDY:
        order_by_greedy(board(), state, entering, power, orders)
    else:
        worth, competition = place_values(board(), state, entering)
        order_by_dumbbot(board(), state, worth[:, power], competition[:, power], power, orders)
    held = (state.power == power) & (orders.kind == HOLD) & (position.kind == "M")
    orders.node[held] = state.unit[held]
    return orders


def same_draws(bot: Bot, code: int, position: Position, power: str, rng: random.Random) -> None:
    """Compare how often each sheet is written, within five standard errors."""
    state, number = read_state(position), POWERS.index(power)
    if position.kind == "M" or position.adjustments[power] < 0:
        at = np.flatnonzero(state.power == number)
    else:
        at = np.flatnonzero(state.dislodged_power == number if position.kind == "R" else board().home_of == number)
    ours, theirs = Counter[object](), Counter[object]()
    for _ in range(DRAWS):
        theirs[written(as_arrays(bot.actions(position, power, rng.getrandbits(60))), at)] += 1
        ours[written(ordered(code, position, number), at)] += 1
    for sheet in ours | theirs:
        share = (ours[sheet] + theirs[sheet]) / (2 * DRAWS)
        error = (2 * share * (1 - share) / DRAWS) ** 0.5
        assert abs(ours[sheet] - theirs[sheet]) / DRAWS <= 5 * error + 1e-9, (position.phase, power, sheet)


def test_places_are_worth_exactly_as_much() -> None:
    for phase in [*phases(1, "mixed", 30), *phases(2, "bots", 30)]:
        state = read_state(phase.position)
        found, competition = place_values(board(), state, entering_units(board(), state))
        wanted = values(phase.position)
        assert found.T.tolist() == wanted.places
        assert competition.T.tolist() == wanted.competition


@pytest.mark.parametrize(("make", "code"), [(DumbBot, DUMBBOT), (GreedyBot, GREEDY)])
@pytest.mark.parametrize("kind", ["M", "R", "A"])
def test_sheets_are_drawn_as_often(make: Callable[[], Bot], code: int, kind: str) -> None:
    rng, checked = random.Random(4), 0
    for phase in [each for each in phases(5, "mixed", 90) if each.position.kind == kind][::2][:5]:
        for power in phase.position.to_move[:3]:
            same_draws(make(), code, phase.position, power, rng)
            checked += 1
    assert checked >= 3
