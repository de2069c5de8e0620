"""The DumbBot of ``bots/dumbbot.py`` as machine code: the same values and choices, from other random numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.environments.diplomacy.bots.compiled.board import Board, Ints
from services.environments.diplomacy.bots.compiled.compiler import compiled
from services.environments.diplomacy.bots.compiled.later_phases import can_build, owed
from services.environments.diplomacy.bots.compiled.state import (
    ADJUSTMENTS,
    DISBAND,
    FALL_MOVES,
    FALL_RETREATS,
    HOLD,
    MOVE,
    SPRING_MOVES,
    SPRING_RETREATS,
    SUPPORT,
    Orders,
    State,
)
from services.environments.diplomacy.bots.dumbbot import ALTERNATIVE_DIFFERENCE, PLAY_ALTERNATIVE
from services.environments.diplomacy.bots.dumbbot_values import (
    COMPETITION_WEIGHT,
    DEFENCE_WEIGHT,
    DEPTH,
    FALL_BASE,
    OTHER_BASE,
    OTHER_WEIGHTS,
    SPRING_WEIGHTS,
    STRENGTH_WEIGHT,
)
from services.environments.diplomacy.position import POWERS

Floats = NDArray[np.float64]
POWER_COUNT = len(POWERS)
_HOLDS_NOTHING = -2  # of a unit without an order


@compiled
def entering_units(board: Board, state: State) -> Ints:
    """How many units of each power can move into each province, (P, V)."""
    entering = np.zeros((POWER_COUNT, len(state.unit)), np.int64)
    for at in range(len(state.unit)):
        if state.unit[at] >= 0:
            entering[state.power[at]] += board.reach[state.unit[at]]
    return entering


@compiled
def place_values(board: Board, state: State, entering: Ints) -> tuple[Floats, Ints]:
    """DumbBot's values of unit-locations for each power, (N, P), and the competition for provinces, (V, P)."""
    provinces, nodes = len(state.unit), len(board.province)
    size = np.zeros(POWER_COUNT)
    for power in range(POWER_COUNT):
        centers = np.sum(state.owner == power)
        size[power] = centers * centers + 4 * centers + 16
    phase = state.clock[1]
    base = FALL_BASE if phase in (FALL_MOVES, FALL_RETREATS) else OTHER_BASE
    weights = SPRING_WEIGHTS if phase in (SPRING_MOVES, SPRING_RETREATS) else OTHER_WEIGHTS
    competition = np.zeros((provinces, POWER_COUNT), np.int64)
    defence = np.zeros((provinces, POWER_COUNT))
    basis = np.zeros((provinces, POWER_COUNT))
    for at in range(provinces):
        owner = state.owner[at]
        for power in range(POWER_COUNT):
            for other in range(POWER_COUNT):
                if other != power and entering[other, at] > 0:
                    competition[at, power] = max(competition[at, power], entering[other, at])
                    if owner == power:
                        defence[at, power] = max(defence[at, power], size[other])
            basis[at, power] = base[1] * defence[at, power]
            if owner >= 0 and owner != power:
                basis[at, power] += base[0] * size[owner]
    # The powers are the last axis, so that the processor adds several of them at once.
    near, further = np.empty((nodes, POWER_COUNT)), np.empty((nodes, POWER_COUNT))
    values = np.empty((nodes, POWER_COUNT))
    for node in range(nodes):
        near[node] = basis[board.province[node]]
        for power in range(POWER_COUNT):
            values[node, power] = weights[0] * near[node, power]
    for step in range(1, DEPTH):
        factor = weights[step] / 5.0**step
        for node in range(nodes):
            first, second, third = board.siblings[node]
            for power in range(POWER_COUNT):
                further[node, power] = max(near[first, power], max(near[second, power], near[third, power]))
            for number in range(board.inflows[node]):
                source = board.inflow[node, number]
                for power in range(POWER_COUNT):
                    further[node, power] += near[source, power]
            for power in range(POWER_COUNT):
                values[node, power] += factor * further[node, power]
        near, further = further, near
    for node in range(nodes):
        at = board.province[node]
        for power in range(POWER_COUNT):
            if phase == ADJUSTMENTS:
                values[node, power] += DEFENCE_WEIGHT * defence[at, power]
            else:
                values[node, power] += (
                    STRENGTH_WEIGHT * entering[power, at] - COMPETITION_WEIGHT * competition[at, power]
                )
    return values, competition


@compiled
def order_by_dumbbot(board: Board, state: State, values: Floats, competition: Ints, power: int, orders: Orders) -> None:
    """Write the orders of DumbBot as this power in any phase, from its column of values and of competition."""
    phase = state.clock[1]
    if phase == ADJUSTMENTS:
        _adjust(board, state, values, power, orders)
    elif phase in (SPRING_RETREATS, FALL_RETREATS):
        _retreat(board, state, values, power, orders)
    else:
        _move(board, state, values, competition, power, orders)


@compiled
def _move(board: Board, state: State, values: Floats, competition: Ints, power: int, orders: Orders) -> None:
    provinces = len(state.unit)
    queue = np.flatnonzero(state.power == power)
    np.random.shuffle(queue)  # the compiler has no other generator
    waiting = list(queue)
    waits_for = np.full(provinces, -1, np.int64)
    goes_into = np.full(provinces, -1, np.int64)  # province -> the own unit that moves there
    for at in queue:
        orders.kind[at] = _HOLDS_NOTHING
    while len(waiting) > 0:
        at = waiting.pop(0)
        waits_for[at] = -1
        blocker = _settle(board, state, values, competition, power, orders, waits_for, goes_into, at)
        if blocker >= 0:
            waits_for[at] = blocker
            waiting.insert(waiting.index(blocker) + 1, at)
    for at in queue:
        if orders.kind[at] == HOLD:
            _make_useful(board, state, values, competition, power, orders, goes_into, at)


@compiled
def _settle(
    board: Board,
    state: State,
    values: Floats,
    competition: Ints,
    power: int,
    orders: Orders,
    waits_for: Ints,
    goes_into: Ints,
    at: int,
) -> int:
    """Order the unit at ``at``, or return the province of the own unit that has to be ordered before it; else -1."""
    here = state.unit[at]
    ranked, count = _ranked_places(board, values, here)
    while count > 0:
        number = _walk(values, ranked, count)
        node = ranked[number]
        aim = board.province[node]
        if node == here:
            break
        own = state.power[aim] == power
        if own and orders.kind[aim] == _HOLDS_NOTHING:
            if not _waits(waits_for, aim, at):
                return int(aim)
        elif own and orders.kind[aim] != MOVE:
            if competition[aim] > 1:
                orders.kind[at], orders.aim[at], orders.helped[at] = SUPPORT, aim, aim
                return -1
        elif goes_into[aim] >= 0:
            if competition[aim] > 0:
                orders.kind[at], orders.aim[at], orders.helped[at] = SUPPORT, aim, goes_into[aim]
                return -1
        else:
            orders.kind[at], orders.aim[at], orders.node[at] = MOVE, aim, node
            goes_into[aim] = at
            return -1
        count -= 1
        for later in range(number, count):
            ranked[later] = ranked[later + 1]
    orders.kind[at], orders.aim[at] = HOLD, at
    return -1


@compiled
def _ranked_places(board: Board, values: Floats, here: int) -> tuple[Ints, int]:
    """The places that a unit can go to and its own, the most valuable first, the last by name among equals."""
    ranked = np.empty(board.neighbors.shape[1] + 1, np.int64)
    ranked[0] = here
    count = 1
    for node in board.neighbors[here]:
        if node < 0:
            break
        number = count
        while number > 0 and _comes_before(values, node, ranked[number - 1]):
            ranked[number] = ranked[number - 1]
            number -= 1
        ranked[number] = node
        count += 1
    return ranked, count


@compiled
def _comes_before(values: Floats, node: int, other: int) -> bool:
    return bool(values[node] > values[other] or (values[node] == values[other] and node > other))


@compiled
def _walk(values: Floats, ranked: Ints, count: int) -> int:
    """The ``walk`` of ``bots/dumbbot.py``."""
    chosen = 0
    while chosen + 1 < count:
        value = values[ranked[chosen]]
        threshold = 0.0
        if value != 0.0:
            threshold = ALTERNATIVE_DIFFERENCE * abs(value - values[ranked[chosen + 1]]) / value
        drawn = np.random.random()
        if not (threshold <= drawn and drawn < PLAY_ALTERNATIVE):
            break
        chosen += 1
    return chosen


@compiled
def _waits(waits_for: Ints, unit: int, other: int) -> bool:
    """Whether ``unit`` waits for ``other``, directly or through those in between."""
    blocker = waits_for[unit]
    while blocker >= 0 and blocker != other:
        blocker = waits_for[blocker]
    return bool(blocker >= 0)


@compiled
def _make_useful(
    board: Board,
    state: State,
    values: Floats,
    competition: Ints,
    power: int,
    orders: Orders,
    goes_into: Ints,
    at: int,
) -> None:
    """Let a unit that holds support the best contested place in its reach where an own unit is or goes, if any."""
    best = -1
    for node in board.neighbors[state.unit[at]]:
        if node < 0:
            break
        aim = board.province[node]
        helped = goes_into[aim]
        contested = competition[aim] > (1 if helped < 0 else 0)
        if helped < 0 and state.power[aim] == power and orders.kind[aim] != MOVE:
            helped = aim
        if helped >= 0 and helped != at and contested and (best < 0 or values[node] > values[best]):
            best = node
            orders.aim[at], orders.helped[at] = aim, helped
    if best >= 0:
        orders.kind[at] = SUPPORT


@compiled
def _retreat(board: Board, state: State, values: Floats, power: int, orders: Orders) -> None:
    taken = np.zeros(len(state.unit), np.bool_)
    # By name of the unit-location, armies first.
    for node in np.sort(state.dislodged[state.dislodged_power == power]):
        at = board.province[node]
        best = -1
        for number, place in enumerate(board.neighbors[node]):
            if place < 0:
                break
            free = state.retreats[at, number] and not taken[board.province[place]]
            if free and (best < 0 or values[place] > values[best]):
                best = place
        orders.node[at] = best
        if best >= 0:
            taken[board.province[best]] = True


@compiled
def _adjust(board: Board, state: State, values: Floats, power: int, orders: Orders) -> None:
    count = owed(board, state, power)
    for _ in range(-count):
        worst = -1
        for node in state.unit[state.power == power]:
            if orders.kind[board.province[node]] == DISBAND:
                continue
            if worst < 0 or values[node] < values[worst] or (values[node] == values[worst] and node > worst):
                worst = node
        orders.kind[board.province[worst]] = DISBAND
    for _ in range(count):
        best = -1
        for at in range(len(state.unit)):
            if can_build(board, state, power, at) and orders.node[at] < 0:
                for node in board.places[at]:
                    if node < 0:
                        break
                    if best < 0 or values[node] > values[best] or (values[node] == values[best] and node < best):
                        best = node
        orders.node[board.province[best]] = best
