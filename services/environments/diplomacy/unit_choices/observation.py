"""A position as one vector, as a power sees it that decides on one of its units."""

from __future__ import annotations

from functools import cache

import numpy as np

from grpo_core.types import FloatArray
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.geography import geography, province

_PHASES = ("SM", "SR", "FM", "FR", "WA")
_FIRST_YEAR, _YEARS = 1901, 35
# Of a province: an army, a fleet, a dislodged unit; whose unit, counted from the power itself; the same of its centre;
# a centre without an owner; a unit of the power itself that has its order already.
_OF_PROVINCE = 3 + len(POWERS) + len(POWERS) + 2


@cache
def _provinces() -> dict[str, int]:
    return {name: number for number, name in enumerate(sorted({province(node[2:]) for node in geography().nodes}))}


@cache
def _nodes() -> dict[str, int]:
    return {node: number for number, node in enumerate(geography().nodes)}


@cache
def size() -> int:
    """Numbers of an observation."""
    return len(_provinces()) * _OF_PROVINCE + len(_nodes()) + len(POWERS) + len(_PHASES) + 2


def observed(position: Position, power: str, unit: str | None, ordered: tuple[str, ...]) -> FloatArray:
    """The vector, shape (``size()``,), in [-1, 1].

    Args:
        position: what all powers see.
        power: who decides; powers are counted from it, in alphabetical sequence.
        unit: the unit whose order is chosen, "A PAR"; None in adjustments.
        ordered: the power's units that have their orders already, in this phase.
    """
    provinces, me = _provinces(), POWERS.index(power)
    board = np.zeros((len(provinces), _OF_PROVINCE), np.float32)
    for index, owner in enumerate(POWERS):
        relative = (index - me) % len(POWERS)
        for each in position.units[owner]:
            _stand(board[provinces[province(each[2:])]], each, relative)
        for each in position.dislodged[owner]:
            row = board[provinces[province(each[2:])]]
            row[2] = 1.0
        for center in position.centers[owner]:
            board[provinces[center], 3 + len(POWERS) + relative] = 1.0
    owned = {center for centers in position.centers.values() for center in centers}
    for center in geography().centers:
        if center not in owned:
            board[provinces[center], -2] = 1.0
    for each in ordered:
        board[provinces[province(each[2:])], -1] = 1.0
    where = np.zeros(len(_nodes()), np.float32)
    if unit is not None:
        where[_nodes()[unit]] = 1.0
    who = np.zeros(len(POWERS), np.float32)
    who[me] = 1.0
    when = np.zeros(len(_PHASES), np.float32)
    when[_PHASES.index(position.season + position.kind)] = 1.0
    rest = np.array([
        min(1.0, (position.year - _FIRST_YEAR) / _YEARS),
        max(-1.0, min(1.0, position.adjustments.get(power, 0) / 4)),
    ], np.float32)  # fmt: skip
    return np.concatenate([board.reshape(-1), where, who, when, rest])


def _stand(row: FloatArray, unit: str, relative: int) -> None:
    row[0 if unit[0] == "A" else 1] = 1.0
    row[3 + relative] = 1.0
