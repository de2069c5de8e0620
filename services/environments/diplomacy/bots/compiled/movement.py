"""Which moves succeed, without convoys, after Kruijswijk, "The Math of Adjudication" (2009).

A move succeeds if its attack is stronger than the unit in its way and than every other move into the same province.
Moves depend on one another, so each is YES, NO or OPEN, and its strengths are spans: between the supports that are
certainly given and those that may be given. What is decided narrows the spans of others. Where nothing more follows,
units move in a ring, and one move of it is taken to succeed.
"""

from __future__ import annotations

import numpy as np

from services.environments.diplomacy.bots.compiled.board import Board, Flags, Ints
from services.environments.diplomacy.bots.compiled.compiler import compiled
from services.environments.diplomacy.bots.compiled.state import MOVE, SUPPORT, Orders, State

NO, YES, OPEN = 0, 1, 2


@compiled
def move_units(board: Board, state: State, orders: Orders) -> None:
    """Adjudicate movement: ``state`` then has the units where they stand, and those that have to retreat.

    Units that cannot retreat are gone.
    """
    moved = resolve(state, orders)
    provinces = len(state.unit)
    state.dislodged[:], state.dislodged_power[:] = -1, -1
    standoff = np.zeros(provinces, np.bool_)
    attacker = np.full(provinces, -1, np.int64)
    unit, power = state.unit.copy(), state.power.copy()
    for at in range(provinces):
        if unit[at] < 0 or orders.kind[at] != MOVE:
            continue
        aim = orders.aim[at]
        if moved[at] == YES:
            if unit[aim] >= 0 and moved[aim] != YES:
                state.dislodged[aim], state.dislodged_power[aim], attacker[aim] = unit[aim], power[aim], at
        elif not (_head_to_head(state, orders, at) and moved[aim] == YES):
            standoff[aim] = True
    for at in range(provinces):
        if moved[at] == YES or state.dislodged[at] >= 0:
            state.unit[at], state.power[at] = -1, -1
    for at in range(provinces):
        if moved[at] == YES:
            state.unit[orders.aim[at]], state.power[orders.aim[at]] = orders.node[at], power[at]
    for at in range(provinces):
        if state.dislodged[at] >= 0:
            _find_retreats(board, state, at, attacker[at], standoff)


@compiled
def _find_retreats(board: Board, state: State, at: int, attacker: int, standoff: Flags) -> None:
    found = False
    for number, node in enumerate(board.neighbors[state.dislodged[at]]):
        free = False
        if node >= 0:
            place = board.province[node]
            free = state.unit[place] < 0 and not standoff[place] and place != attacker
        state.retreats[at, number] = free
        found = found or free
    if not found:
        state.dislodged[at], state.dislodged_power[at] = -1, -1


@compiled
def resolve(state: State, orders: Orders) -> Ints:
    """YES for the units that move, and NO for all others, (V,)."""
    provinces = len(state.unit)
    standing = state.unit >= 0
    valid = np.zeros(provinces, np.bool_)  # supports of what is really ordered, not cut whatever moves succeed
    moved = np.zeros(provinces, np.int64)
    for at in range(provinces):
        if standing[at] and orders.kind[at] == SUPPORT:
            helped = orders.helped[at]
            moves = orders.kind[helped] == MOVE
            matches = (moves and orders.aim[helped] == orders.aim[at]) or (not moves and helped == orders.aim[at])
            if moves and orders.node[at] >= 0 and orders.node[at] != orders.node[helped]:
                matches = False
            valid[at] = standing[helped] and matches
        elif standing[at] and orders.kind[at] == MOVE:
            moved[at] = OPEN
    for at in range(provinces):
        aim = orders.aim[at]
        # An attack cuts a support even if it fails, but not of its own power, nor the support of a move against itself.
        if moved[at] == OPEN and valid[aim] and state.power[at] != state.power[aim] and orders.aim[aim] != at:
            valid[aim] = False
    _follow(state, orders, valid, moved)
    while np.any(moved == OPEN):
        first = np.argmax(moved == OPEN)
        before = moved.copy()
        moved[first] = YES
        _follow(state, orders, valid, moved)
        if np.any(moved == OPEN):
            continue
        for at in range(provinces):
            if before[at] == OPEN and _decided(state, orders, valid, moved, at) != moved[at]:
                moved[:] = before
                moved[first] = NO
                _follow(state, orders, valid, moved)
                break
    return moved


@compiled
def _follow(state: State, orders: Orders, valid: Flags, moved: Ints) -> None:
    """Decide what follows from ``moved``, which is changed."""
    changed = True
    while changed:
        changed = False
        for at in range(len(moved)):
            if moved[at] == OPEN:
                moved[at] = _decided(state, orders, valid, moved, at)
                changed = changed or moved[at] != OPEN


@compiled
def _decided(state: State, orders: Orders, valid: Flags, moved: Ints, at: int) -> int:
    """Whether the unit at ``at`` moves, so far as ``moved`` says it."""
    aim = orders.aim[at]
    occupied = state.unit[aim] >= 0
    opposed = _head_to_head(state, orders, at)
    leaving = moved[aim] if occupied and not opposed else NO
    low, high = _supported(state, orders, valid, moved, at, -1)
    if occupied and leaving != YES:
        if state.power[aim] == state.power[at]:
            if leaving == NO:
                return NO
            low = 0
        else:
            # The power whose unit is in the way does not help to dislodge it.
            low, most = _supported(state, orders, valid, moved, at, state.power[aim])
            high = high if leaving == OPEN else most
    least, most = 0, 0
    if occupied and (opposed or orders.kind[aim] != MOVE):
        least, most = _supported(state, orders, valid, moved, aim, -1)
    elif occupied:
        least, most = int(leaving == NO), int(leaving != YES)
    for other in range(len(moved)):
        if other != at and state.unit[other] >= 0 and orders.kind[other] == MOVE and orders.aim[other] == aim:
            weakest, strongest = _supported(state, orders, valid, moved, other, -1)
            if _head_to_head(state, orders, other) and moved[aim] != NO:
                weakest = 0
                if moved[aim] == YES:
                    strongest = 0
            least, most = max(least, weakest), max(most, strongest)
    if low > most:
        return YES
    return NO if high <= least else OPEN


@compiled
def _head_to_head(state: State, orders: Orders, at: int) -> bool:
    """Whether the unit at ``at`` and the one where it goes move to each other's places."""
    aim = orders.aim[at]
    return bool(state.unit[aim] >= 0 and orders.kind[aim] == MOVE and orders.aim[aim] == at)


@compiled
def _supported(state: State, orders: Orders, valid: Flags, moved: Ints, at: int, without: int) -> tuple[int, int]:
    """One, and the supports that the unit at ``at`` surely and at most gets, without those of the power ``without``."""
    least = most = 1
    for other in range(len(moved)):
        if valid[other] and orders.helped[other] == at and state.power[other] != without:
            # Dislodged by the unit that it helps against, it gives no support.
            against = orders.aim[other]
            threat = NO
            if (
                state.unit[against] >= 0
                and orders.kind[against] == MOVE
                and orders.aim[against] == other
                and state.power[against] != state.power[other]
            ):
                threat = moved[against]
            least += int(threat == NO)
            most += int(threat != YES)
    return least, most
