"""Retreats, centres that change hands, and builds and disbands."""

from __future__ import annotations

import numpy as np

from services.environments.diplomacy.bots.compiled.board import Board
from services.environments.diplomacy.bots.compiled.compiler import compiled
from services.environments.diplomacy.bots.compiled.movement import move_units
from services.environments.diplomacy.bots.compiled.state import (
    ADJUSTMENTS,
    DISBAND,
    FALL_MOVES,
    FALL_RETREATS,
    SPRING_MOVES,
    SPRING_RETREATS,
    Orders,
    State,
)


@compiled
def advance(board: Board, state: State, orders: Orders) -> None:
    """Adjudicate the orders of a phase and go on to the next phase with decisions, or to the year's last one.

    At the adjustments of a year it stops in any case: centres have changed hands then.
    """
    phase = state.clock[1]
    if phase in (SPRING_MOVES, FALL_MOVES):
        move_units(board, state, orders)
        state.clock[1] = phase + 1
        if np.any(state.dislodged >= 0):
            return
    elif phase in (SPRING_RETREATS, FALL_RETREATS):
        _retreat(board, state, orders)
    else:
        _adjust(state, orders)
        state.clock[0] += 1
        state.clock[1] = SPRING_MOVES
        return
    state.clock[1] = FALL_MOVES if phase in (SPRING_MOVES, SPRING_RETREATS) else ADJUSTMENTS
    if state.clock[1] == ADJUSTMENTS:
        _capture(board, state)


@compiled
def owed(board: Board, state: State, power: int) -> int:
    """Builds that the power may make, or disbands that it has to make as a negative number."""
    units = free = 0
    for at in range(len(state.unit)):
        units += int(state.power[at] == power)
        free += int(can_build(board, state, power, at))
    difference = np.sum(state.owner == power) - units
    return int(min(difference, free))


@compiled
def can_build(board: Board, state: State, power: int, at: int) -> bool:
    """Whether it is a free home centre of the power, and still its own."""
    return bool(board.home_of[at] == power and state.owner[at] == power and state.unit[at] < 0)


@compiled
def _retreat(board: Board, state: State, orders: Orders) -> None:
    entering = np.zeros(len(state.unit), np.int64)
    for at in range(len(state.unit)):
        if state.dislodged[at] >= 0 and orders.node[at] >= 0:
            entering[board.province[orders.node[at]]] += 1
    for at in range(len(state.unit)):
        if state.dislodged[at] >= 0 and orders.node[at] >= 0:
            place = board.province[orders.node[at]]
            if entering[place] == 1:
                state.unit[place], state.power[place] = orders.node[at], state.dislodged_power[at]
    state.dislodged[:], state.dislodged_power[:] = -1, -1


@compiled
def _capture(board: Board, state: State) -> None:
    for at in range(len(state.unit)):
        if board.is_center[at] and state.unit[at] >= 0:
            state.owner[at] = state.power[at]


@compiled
def _adjust(state: State, orders: Orders) -> None:
    for at in range(len(state.unit)):
        if orders.kind[at] == DISBAND:
            state.unit[at], state.power[at] = -1, -1
        elif orders.node[at] >= 0 and state.unit[at] < 0:
            state.unit[at], state.power[at] = orders.node[at], state.owner[at]
