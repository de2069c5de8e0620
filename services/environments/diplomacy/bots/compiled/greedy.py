"""The greedy bot of ``bots/greedy.py`` as machine code: the same values and choices, from other random numbers."""

from __future__ import annotations

import numpy as np

from services.environments.diplomacy.bots.compiled.board import Board, Flags, Ints
from services.environments.diplomacy.bots.compiled.compiler import compiled
from services.environments.diplomacy.bots.compiled.later_phases import can_build, owed
from services.environments.diplomacy.bots.compiled.state import (
    ADJUSTMENTS,
    DISBAND,
    FALL_RETREATS,
    HOLD,
    MOVE,
    SPRING_RETREATS,
    SUPPORT,
    Orders,
    State,
)
from services.environments.diplomacy.bots.greedy import EMPTY_CENTER, GUARDED_CENTER, THREATENED_HOME


@compiled
def order_by_greedy(board: Board, state: State, entering: Ints, power: int, orders: Orders) -> None:
    """Write the orders of the greedy bot as this power in any phase."""
    steps = _steps(board, state, power)
    phase = state.clock[1]
    if phase == ADJUSTMENTS:
        _adjust(board, state, steps, power, orders)
    elif phase in (SPRING_RETREATS, FALL_RETREATS):
        _retreat(board, state, steps, power, orders)
    else:
        _move(board, state, steps, entering, power, orders)


@compiled
def _steps(board: Board, state: State, power: int) -> Ints:
    """Steps from each unit-location to the nearest centre that the power does not own, (N,); -1 if out of reach."""
    nodes = len(board.province)
    steps = np.full(nodes, -1, np.int64)
    queue = np.empty(nodes, np.int64)
    count = 0
    for node in range(nodes):
        at = board.province[node]
        if board.is_center[at] and state.owner[at] != power:
            steps[node] = 0
            queue[count] = node
            count += 1
    first = 0
    while first < count:
        node = queue[first]
        first += 1
        for other in board.neighbors[node]:
            if other < 0:
                break
            if steps[other] < 0:
                steps[other] = steps[node] + 1
                queue[count] = other
                count += 1
    return steps


@compiled
def _nearness(steps: Ints, node: int) -> float:
    return 1 / (1 + steps[node]) if steps[node] >= 0 else 0.0


@compiled
def _worth(board: Board, state: State, steps: Ints, power: int, node: int) -> float:
    """The value of going to a place."""
    if steps[node] != 0:
        return _nearness(steps, node)
    at = board.province[node]
    guarded = state.unit[at] >= 0 and state.power[at] != power
    return GUARDED_CENTER if guarded else EMPTY_CENTER


@compiled
def _worth_of_staying(board: Board, state: State, steps: Ints, entering: Ints, power: int, node: int) -> float:
    at = board.province[node]
    if steps[node] != 0 and state.owner[at] == power:
        for other in range(len(entering)):
            if other != power and entering[other, at] > 0:
                return THREATENED_HOME
    return _worth(board, state, steps, power, node)


@compiled
def _move(board: Board, state: State, steps: Ints, entering: Ints, power: int, orders: Orders) -> None:
    units = np.sort(state.unit[state.power == power])
    most = len(units) * (board.neighbors.shape[1] + 1)
    worth, mover, goal = np.empty(most), np.empty(most, np.int64), np.empty(most, np.int64)
    count = 0
    for unit in units:
        worth[count], mover[count], goal[count] = (
            _worth_of_staying(board, state, steps, entering, power, unit),
            unit,
            unit,
        )
        count += 1
        for node in board.neighbors[unit]:
            if node < 0:
                break
            worth[count], mover[count], goal[count] = _worth(board, state, steps, power, node), unit, node
            count += 1
    shuffled = np.random.permutation(count)  # equals come in any order
    ranked = shuffled[np.argsort(-worth[shuffled], kind="mergesort")]
    goes_to = np.full(len(state.unit), -1, np.int64)  # by the province of the unit
    taken = np.zeros(len(state.unit), np.bool_)
    left = len(units)
    while left > 0:
        for number in ranked:
            at, aim = board.province[mover[number]], board.province[goal[number]]
            if goes_to[at] < 0 and not taken[aim] and _is_open(state, power, goes_to, at, aim):
                goes_to[at] = goal[number]
                taken[aim] = True
                left -= 1
                break  # the province of an own unit opens once that unit is ordered out, so look again from the top
    for unit in units:
        at = board.province[unit]
        node = goes_to[at]
        if node != unit:
            orders.kind[at], orders.aim[at], orders.node[at] = MOVE, board.province[node], node
        else:
            _help_an_attack(board, state, steps, power, units, goes_to, orders, unit)


@compiled
def _is_open(state: State, power: int, goes_to: Ints, at: int, aim: int) -> bool:
    """Whether no own unit stands there that is not ordered out, apart from the one at ``at``."""
    if state.power[aim] != power or aim == at:
        return True
    return bool(goes_to[aim] >= 0 and goes_to[aim] != state.unit[aim])


@compiled
def _help_an_attack(
    board: Board, state: State, steps: Ints, power: int, units: Ints, goes_to: Ints, orders: Orders, unit: int
) -> None:
    """Support the best own attack on an occupied province in reach; hold where there is none."""
    at = board.province[unit]
    best, most = -1, 0.0
    for other in units:  # in order, so that the last by name wins among equals
        node = goes_to[board.province[other]]
        aim = board.province[node]
        attacks = node != other and state.unit[aim] >= 0 and state.power[aim] != power
        if attacks and board.reach[unit, aim]:
            worth = _worth(board, state, steps, power, node)
            if best < 0 or worth >= most:
                best, most = other, worth
    orders.kind[at] = HOLD
    if best >= 0:
        helped = board.province[best]
        orders.kind[at], orders.aim[at], orders.helped[at] = SUPPORT, board.province[goes_to[helped]], helped


@compiled
def _retreat(board: Board, state: State, steps: Ints, power: int, orders: Orders) -> None:
    taken = np.zeros(len(state.unit), np.bool_)
    for node in np.sort(state.dislodged[state.dislodged_power == power]):
        at = board.province[node]
        free: Flags = state.retreats[at].copy()
        for number, place in enumerate(board.neighbors[node]):
            if place >= 0 and taken[board.province[place]]:
                free[number] = False
        best, most, drawn = -1, -1.0, 0.0
        for number, place in enumerate(board.neighbors[node]):
            if place >= 0 and free[number]:
                worth, lot = _worth(board, state, steps, power, place), np.random.random()
                if worth > most or (worth == most and lot > drawn):
                    best, most, drawn = place, worth, lot
        orders.node[at] = best
        if best >= 0:
            taken[board.province[best]] = True


@compiled
def _adjust(board: Board, state: State, steps: Ints, power: int, orders: Orders) -> None:
    count = owed(board, state, power)
    for _ in range(abs(count)):
        best, most, drawn = -1, -2.0, 0.0
        for at in range(len(state.unit)):
            if count < 0:
                if state.power[at] == power and orders.kind[at] != DISBAND:
                    worth, lot = -_nearness(steps, state.unit[at]), np.random.random()
                    if worth > most or (worth == most and lot > drawn):
                        best, most, drawn = state.unit[at], worth, lot
            elif can_build(board, state, power, at) and orders.node[at] < 0:
                for node in board.places[at]:
                    if node < 0:
                        break
                    worth, lot = _nearness(steps, node), np.random.random()
                    if worth > most or (worth == most and lot > drawn):
                        best, most, drawn = node, worth, lot
        at = board.province[best]
        if count < 0:
            orders.kind[at] = DISBAND
        else:
            orders.node[at] = best
