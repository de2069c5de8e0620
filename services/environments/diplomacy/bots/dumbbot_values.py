"""DumbBot's values of places by its published formulas, for all seven powers at once.

Axes: P powers (in the order of POWERS), N unit-locations (of ``geography().nodes``), V provinces.

Per power, with n = its supply centres, size = n^2 + 4 n + 16:

- attack of a centre owned by another power: the owner's size; 0 for an unowned one and everywhere else;
- defence of an own centre: the largest size among the other powers with a unit that can move in;
- proximity_0 = 700 attack + 300 defence in spring and winter, 600 attack + 400 defence in fall; proximity_k of
  a unit-location = (the largest proximity_(k-1) of the unit types and coasts in its province + the sum of
  proximity_(k-1) over the unit-locations, of both types, from which a unit can move in) / 5, for k = 1 .. 9;
- value = sum_k w_k proximity_k + 1000 strength - 1000 competition, where strength counts own units that can
  move into the province and competition the most such units of any one other power; at adjustments 1000 defence
  replaces the last two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.geography import geography, province

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

DEPTH = 10  # proximities 0 .. 9
FALL_BASE, OTHER_BASE = (600.0, 400.0), (700.0, 300.0)  # weights of attack and defence in proximity_0
SPRING_WEIGHTS = (100.0, 1000.0, 30.0, 10.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0)
OTHER_WEIGHTS = (1000.0, 100.0, 30.0, 10.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0)
STRENGTH_WEIGHT = COMPETITION_WEIGHT = DEFENCE_WEIGHT = 1000.0


@dataclass(frozen=True, slots=True)
class Board:
    """The map as index arrays."""

    node_index: dict[str, int]
    province_index: dict[str, int]
    province_of_node: IntArray  # (N,)
    inflow: FloatArray  # (N, N) 1 where a unit at the row's unit-location can move to the column's place, else 0
    siblings: IntArray  # (N, 3) the unit-locations of the same province, repeated to fill the row
    reach: FloatArray  # (N, V) 1 where a unit at the unit-location can move into the province


@dataclass(frozen=True, slots=True)
class Values:
    """DumbBot's values of one position, one row per power."""

    places: list[list[float]]  # (P, N) value of each unit-location
    competition: list[list[float]]  # (P, V) most units of one other power that can move in


@cache
def board() -> Board:
    """The standard map's index arrays."""
    world = geography()
    names = sorted({province(node[2:]) for node in world.nodes})
    province_index = {name: number for number, name in enumerate(names)}
    node_index = {node: number for number, node in enumerate(world.nodes)}
    province_of_node = np.array([province_index[province(node[2:])] for node in world.nodes])
    inflow = np.zeros((len(world.nodes), len(world.nodes)))
    reach = np.zeros((len(world.nodes), len(names)))
    for node, neighbors in world.neighbors.items():
        reach[node_index[node], [province_index[province(other[2:])] for other in neighbors]] = 1.0
        entered = {other[2:] for other in neighbors}
        inflow[node_index[node]] = [other[2:] in entered or province(other[2:]) in entered for other in world.nodes]
    siblings = [np.flatnonzero(province_of_node == place) for place in province_of_node]
    padded = np.stack([np.resize(row, 3) for row in siblings])
    return Board(node_index, province_index, province_of_node, inflow, padded, reach)


def values(position: Position) -> Values:
    """The values of ``position``, cached in its memo."""
    known = position.memo.get(Values)
    if known is None:
        known = position.memo[Values] = _values(position)
    assert isinstance(known, Values)
    return known


def _values(position: Position) -> Values:
    here = board()
    sizes = np.array([float(n * n + 4 * n + 16) for n in (len(position.centers[power]) for power in POWERS)])
    owned = np.zeros((len(POWERS), len(here.province_index)))
    units = np.zeros((len(POWERS), len(here.node_index)))
    for row, power in enumerate(POWERS):
        owned[row, [here.province_index[center] for center in position.centers[power]]] = 1.0
        units[row, [here.node_index[unit] for unit in position.units[power]]] = 1.0
    entering = units @ here.reach  # (P, V) units of each power that can move in
    owner_size = sizes @ owned  # (V,)
    attack = owner_size * (1.0 - owned)
    defence = owned * _most_of_another(sizes[:, None] * (entering > 0))
    total = _proximities(attack, defence, position.season)
    competition = _most_of_another(entering)
    if position.kind == "A":
        extra = DEFENCE_WEIGHT * defence
    else:
        extra = STRENGTH_WEIGHT * entering - COMPETITION_WEIGHT * competition
    total += extra[:, here.province_of_node]
    return Values(total.tolist(), competition.tolist())


def _proximities(attack: FloatArray, defence: FloatArray, season: str) -> FloatArray:
    """The weighted sum of proximities, (P, N), of attack and defence, (P, V)."""
    here = board()
    attack_weight, defence_weight = FALL_BASE if season == "F" else OTHER_BASE
    weights = SPRING_WEIGHTS if season == "S" else OTHER_WEIGHTS
    # Undivided, proximities are integers below 2**53: matrix products are exact whatever the order of sums,
    # and the same position has the same values, ties included, on every machine.
    undivided = (attack_weight * attack + defence_weight * defence)[:, here.province_of_node]
    total = weights[0] * undivided
    for step in range(1, DEPTH):
        best = undivided[:, here.siblings[:, 0]]
        for column in (1, 2):
            best = np.maximum(best, undivided[:, here.siblings[:, column]])
        undivided = best + undivided @ here.inflow
        total += weights[step] / 5.0**step * undivided
    return total


def _most_of_another(amounts: FloatArray) -> FloatArray:
    """The largest entry of each column in any other row; (P, V) to (P, V)."""
    ordered = np.sort(amounts, axis=0)
    others: FloatArray = np.where(amounts == ordered[-1], ordered[-2], ordered[-1])
    return others
