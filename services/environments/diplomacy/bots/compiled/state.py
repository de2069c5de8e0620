"""A state of the game and its orders as arrays by province, which holds a unit and one that must retreat at most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from services.environments.diplomacy.bots.compiled.board import Flags, Ints, board
from services.environments.diplomacy.bots.compiled.compiler import compiled
from services.environments.diplomacy.bots.dumbbot_values import board as index_arrays
from services.environments.diplomacy.position import POWERS, Position

HOLD, MOVE, SUPPORT, DISBAND = 0, 1, 2, 3
SPRING_MOVES, SPRING_RETREATS, FALL_MOVES, FALL_RETREATS, ADJUSTMENTS = range(5)
_PHASES = {"SM": SPRING_MOVES, "SR": SPRING_RETREATS, "FM": FALL_MOVES, "FR": FALL_RETREATS, "WA": ADJUSTMENTS}


class State(NamedTuple):
    """What changes from phase to phase. -1 stands for none."""

    unit: Ints  # (V,) the unit-location of the unit that stands there
    power: Ints  # (V,) whose it is
    dislodged: Ints  # (V,) the unit-location of the unit that has to leave
    dislodged_power: Ints  # (V,) whose it is
    retreats: Flags  # (V, D) which of its neighbours it may retreat to
    owner: Ints  # (V,) who owns the centre
    clock: Ints  # (2,) the year, and one of the five phases


class Orders(NamedTuple):
    """The orders of a phase, by the province of their unit.

    Movement: ``kind`` is HOLD, MOVE or SUPPORT, ``aim`` the province that is entered (or held, for the support of a
    unit that stays), ``helped`` the province of the unit that is supported, ``node`` the unit-location that is moved
    to, or to which alone a move is supported. Retreats: ``node`` is where to, or -1. Adjustments: ``node`` is what is
    built there, or -1; ``kind`` DISBAND.
    """

    kind: Ints  # (V,)
    aim: Ints  # (V,)
    helped: Ints  # (V,)
    node: Ints  # (V,)


def read_state(position: Position) -> State:
    """The arrays of a position."""
    here, known = board(), index_arrays()
    provinces = len(here.home_of)
    state = empty_state(provinces, here.neighbors.shape[1])
    for number, power in enumerate(POWERS):
        for unit in position.units[power]:
            at = known.province_index[unit[2:5]]
            state.unit[at], state.power[at] = known.node_index[unit], number
        for unit, places in position.dislodged[power].items():
            at, node = known.province_index[unit[2:5]], known.node_index[unit]
            state.dislodged[at], state.dislodged_power[at] = node, number
            free = [known.node_index[f"{unit[0]} {place}"] for place in places]
            state.retreats[at] = np.isin(here.neighbors[node], free)
        state.owner[[known.province_index[center] for center in position.centers[power]]] = number
    state.clock[:] = position.year, _PHASES[position.season + position.kind]
    return state


@compiled
def empty_state(provinces: int, neighbors: int) -> State:
    """A state without units and owners."""
    return State(
        np.full(provinces, -1, np.int64),
        np.full(provinces, -1, np.int64),
        np.full(provinces, -1, np.int64),
        np.full(provinces, -1, np.int64),
        np.zeros((provinces, neighbors), np.bool_),
        np.full(provinces, -1, np.int64),
        np.zeros(2, np.int64),
    )


@compiled
def copy_state(state: State) -> State:
    """A state that can be changed by itself."""
    return State(
        state.unit.copy(),
        state.power.copy(),
        state.dislodged.copy(),
        state.dislodged_power.copy(),
        state.retreats.copy(),
        state.owner.copy(),
        state.clock.copy(),
    )


@compiled
def no_orders(provinces: int) -> Orders:
    """Orders that hold, disband or build nothing."""
    return Orders(
        np.zeros(provinces, np.int64),
        np.arange(provinces),
        np.arange(provinces),
        np.full(provinces, -1, np.int64),
    )
