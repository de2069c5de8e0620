"""The standard map as arrays. Axes: P powers (in the order of POWERS), N unit-locations (of ``geography().nodes``,
which are sorted), V provinces (sorted), D the most neighbours that a unit-location has.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.environments.diplomacy.bots.dumbbot_values import board as index_arrays
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.geography import geography, province
from services.environments.diplomacy.rules.legal import standard_map

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Board(NamedTuple):
    """What never changes."""

    province: Ints  # (N,) of each unit-location
    neighbors: Ints  # (N, D) unit-locations one step away, in order, then -1
    reach: Flags  # (N, V) whether a unit there can move into the province, and so support into it
    siblings: Ints  # (N, 3) the unit-locations of the same province, repeated to fill the row
    inflow: Ints  # (N, M) unit-locations from which units, of either kind, come there; then -1
    inflows: Ints  # (N,) how many those are
    places: Ints  # (V, 4) the unit-locations of the province, in order, then -1
    is_center: Flags  # (V,)
    home_of: Ints  # (V,) the power whose home centre it is, or -1


@cache
def board() -> Board:
    """The standard map."""
    world, known = geography(), index_arrays()
    at = known.province_of_node.astype(np.int64)
    neighbors = [[known.node_index[other] for other in world.neighbors[node]] for node in world.nodes]
    provinces = len(known.province_index)
    is_center, home_of = np.zeros(provinces, np.bool_), np.full(provinces, -1, np.int64)
    is_center[[known.province_index[center] for center in world.centers]] = True
    for number, power in enumerate(POWERS):
        home_of[[known.province_index[province(home)] for home in standard_map().homes[power]]] = number
    return Board(
        province=at,
        neighbors=_rows(neighbors),
        reach=known.reach > 0,
        siblings=known.siblings.astype(np.int64),
        inflow=_rows([np.flatnonzero(column).tolist() for column in known.inflow.T]),
        inflows=known.inflow.sum(axis=0).astype(np.int64),
        places=_rows([np.flatnonzero(at == number).tolist() for number in range(provinces)]),
        is_center=is_center,
        home_of=home_of,
    )


def _rows(lists: list[list[int]]) -> Ints:
    """The lists as rows of one array, filled up with -1."""
    width = max(map(len, lists))
    return np.array([row + [-1] * (width - len(row)) for row in lists], np.int64)
