"""Games that bots play on from a state to the adjustments of a near year."""

from __future__ import annotations

import numpy as np

from services.environments.diplomacy.bots.compiled.board import Board, Ints
from services.environments.diplomacy.bots.compiled.compiler import compiled
from services.environments.diplomacy.bots.compiled.dumbbot import (
    POWER_COUNT,
    entering_units,
    order_by_dumbbot,
    place_values,
)
from services.environments.diplomacy.bots.compiled.greedy import order_by_greedy
from services.environments.diplomacy.bots.compiled.later_phases import advance
from services.environments.diplomacy.bots.compiled.state import ADJUSTMENTS, Orders, State, copy_state, no_orders
from services.environments.diplomacy.position import CENTERS_TO_WIN

DUMBBOT, GREEDY = 0, 1


@compiled
def order_all(board: Board, state: State, players: Ints, without: int) -> Orders:
    """The orders of all powers but ``without``, by the bots in ``players``, (P,); -1 leaves out none."""
    orders = no_orders(len(state.unit))
    entering = entering_units(board, state)
    values, competition = place_values(board, state, entering)
    for power in range(POWER_COUNT):
        if power != without:
            if players[power] == GREEDY:
                order_by_greedy(board, state, entering, power, orders)
            else:
                order_by_dumbbot(board, state, values[:, power], competition[:, power], power, orders)
    return orders


@compiled
def first_orders(board: Board, state: State, players: Ints, power: int, seed: int) -> Orders:
    """The orders of all powers but one, by the bots in ``players``, (P,)."""
    np.random.seed(seed)
    return order_all(board, state, players, power)


@compiled
def centers_after(
    board: Board, state: State, orders: Orders, players: Ints, power: int, last_year: int, seed: int
) -> int:
    """The power's centres at the end of a game that goes on from ``state`` with ``orders``, as ``final_centers``."""
    state = copy_state(state)
    advance(board, state, orders)
    return final_centers(board, state, players, power, last_year, seed)


@compiled
def final_centers(board: Board, state: State, players: Ints, power: int, last_year: int, seed: int) -> int:
    """The power's centres at the adjustments of ``last_year``, or when it has 18 or nothing is left of it.

    ``state`` is then that of the end.
    """
    np.random.seed(seed)
    while True:
        centers = np.sum(state.owner == power)
        alive = centers > 0 or np.any(state.power == power) or np.any(state.dislodged_power == power)
        at_the_end = state.clock[1] == ADJUSTMENTS and state.clock[0] >= last_year
        if at_the_end or state.clock[0] > last_year or not alive:
            return int(centers)
        if state.clock[1] == ADJUSTMENTS and centers >= CENTERS_TO_WIN:
            return int(centers)
        advance(board, state, order_all(board, state, players, -1))
