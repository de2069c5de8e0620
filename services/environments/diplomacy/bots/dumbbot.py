"""DumbBot, the community's classic baseline, after the published description of David Norman's bot.

``dumbbot_values`` computes the values of places; this module chooses the orders. DumbBot never convoys and ignores
other powers' orders.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from services.environments.diplomacy.bots.dumbbot_values import board, values
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.geography import geography, province
from services.environments.playing import Bot

PLAY_ALTERNATIVE = 0.5  # chance to consider the next best place
ALTERNATIVE_DIFFERENCE = 5.0  # how fast that chance falls with the relative difference in value

_ROW = {power: row for row, power in enumerate(POWERS)}


class DumbBot(Bot):
    """Sends each unit to one of the most valuable places, and supports contested moves and units."""

    def actions(self, position: Position, power: str, seed: int) -> tuple[str, ...]:
        """DumbBot's orders of one phase."""
        if not position.orderable.get(power):
            return ()
        worth, row = values(position), _ROW[power]
        return decide(position, power, worth.places[row], worth.competition[row], seed)


def decide(
    position: Position, power: str, places: Sequence[float], competition: Sequence[float], seed: int
) -> tuple[str, ...]:
    """The orders from the values of unit-locations (N,) and the competition for provinces (V,), as in ``Values``."""
    if position.kind == "M":
        return _Movement(position, power, places, competition, random.Random(seed)).orders()
    if position.kind == "R":
        return _retreats(position, power, places)
    return _adjustments(position, power, places)


def walk(values: Sequence[float], uniform: Callable[[], float]) -> int:
    """Index of the entry to take: start at the first and move on to the next at random.

    With r uniform in [0, 1), it moves on while r < 0.5 and r >= 5 |difference| / value (0 where the value is 0).
    """
    chosen = 0
    while chosen + 1 < len(values):
        value = values[chosen]
        threshold = ALTERNATIVE_DIFFERENCE * abs(value - values[chosen + 1]) / value if value else 0.0
        if not threshold <= uniform() < PLAY_ALTERNATIVE:
            break
        chosen += 1
    return chosen


@cache
def _moves() -> dict[str, tuple[tuple[int, int, str], ...]]:
    """The destinations from each unit-location, itself first: (index, province index, unit-location)."""
    here = board()
    return {
        node: tuple(
            (here.node_index[place], here.province_index[province(place[2:])], place) for place in (node, *neighbors)
        )
        for node, neighbors in geography().neighbors.items()
    }


class _Movement:
    """One power's movement phase: units in random order, each after those of its own that block it."""

    def __init__(
        self, position: Position, power: str, places: Sequence[float], competition: Sequence[float], rng: random.Random
    ) -> None:
        self.legal = position.legal
        self.units = position.units[power]
        self.places = places
        self.competition = competition
        self.rng = rng
        province_of = board().province_index
        self.occupant = {province_of[unit[2:5]]: unit for unit in self.units}
        self.moves_into: dict[int, str] = {}  # province -> the own order that moves there
        self.moving: set[str] = set()  # own units ordered to move
        self.ordered: dict[str, str] = {}  # unit -> order
        self.waits_for: dict[str, str] = {}  # unordered unit -> the unordered unit that is in its way

    def orders(self) -> tuple[str, ...]:
        """One order a unit, in the order of ``position.units``."""
        queue = list(self.units)
        self.rng.shuffle(queue)
        while queue:
            unit = queue.pop(0)
            self.waits_for.pop(unit, None)
            blocker = self._settle(unit)
            if blocker is not None:
                self.waits_for[unit] = blocker
                queue.insert(queue.index(blocker) + 1, unit)
        for unit in self.units:
            if self.ordered[unit].endswith(" H"):
                self._make_useful(unit)
        return tuple(self.ordered[unit] for unit in self.units)

    def _settle(self, unit: str) -> str | None:
        """Order ``unit``, or return the own unit that has to be ordered before it."""
        ranked = sorted(((self.places[index], place, area) for index, area, place in _moves()[unit]), reverse=True)
        while ranked:
            number = walk([value for value, _, _ in ranked], self.rng.random)
            _, place, area = ranked[number]
            if place == unit:
                break
            occupant = self.occupant.get(area)
            if occupant is not None and occupant not in self.ordered:
                if not self._waits(occupant, unit):
                    return occupant
                order = None
            elif occupant is not None and occupant not in self.moving:
                order = self._support(unit, occupant) if self.competition[area] > 1 else None
            elif area in self.moves_into:
                order = self._support(unit, self.moves_into[area]) if self.competition[area] > 0 else None
            else:
                order = f"{unit} - {place[2:]}"
                self.moving.add(unit)
                self.moves_into[area] = order
            if order is not None:
                self.ordered[unit] = order
                return None
            del ranked[number]
        self.ordered[unit] = f"{unit} H"
        return None

    def _waits(self, unit: str, other: str) -> bool:
        """Whether ``unit`` waits for ``other``, directly or through those in between."""
        blocker = self.waits_for.get(unit)
        while blocker is not None and blocker != other:
            blocker = self.waits_for.get(blocker)
        return blocker is not None

    def _support(self, unit: str, what: str) -> str | None:
        order = f"{unit} S {what}"
        return order if order in self.legal[unit[2:]] else None

    def _make_useful(self, unit: str) -> None:
        """Let a holding unit support the best contested place in its reach where an own unit is or goes, if any."""
        best: tuple[float, str] | None = None
        for index, area, _ in _moves()[unit][1:]:
            what = self.moves_into.get(area)
            contested = self.competition[area] > (1 if what is None else 0)
            if what is None and self.occupant.get(area) not in self.moving:
                what = self.occupant.get(area)
            if what is not None and contested and (best is None or self.places[index] > best[0]):
                support = self._support(unit, what)
                if support is not None:
                    best = (self.places[index], support)
        if best is not None:
            self.ordered[unit] = best[1]


def _retreats(position: Position, power: str, places: Sequence[float]) -> tuple[str, ...]:
    """Each unit goes to the best location that no earlier unit took; without one, it disbands."""
    taken: set[str] = set()
    orders = []
    for unit, free in position.dislodged[power].items():
        ranked = _ranked((f"{unit[0]} {place}" for place in free if province(place) not in taken), places)
        if ranked:
            taken.add(province(ranked[0][2:]))
            orders.append(f"{unit} R {ranked[0][2:]}")
        else:
            orders.append(f"{unit} D")
    return tuple(orders)


def _adjustments(position: Position, power: str, places: Sequence[float]) -> tuple[str, ...]:
    """Builds from the best location down, one per province; disbands from the worst up."""
    owed = position.adjustments[power]
    legal = {order for place in position.orderable[power] for order in position.legal[place]} - {"WAIVE"}
    ranked = _ranked((order[:-2] for order in legal), places)
    if owed < 0:
        return tuple(f"{unit} D" for unit in ranked[owed:])
    builds: dict[str, str] = {}
    for unit in ranked:
        builds.setdefault(province(unit[2:]), f"{unit} B")
    return tuple(builds.values())[:owed]


def _ranked(nodes: Iterable[str], places: Sequence[float]) -> list[str]:
    """Unit-locations, best first; among equals armies come before fleets, then by name."""
    index = board().node_index
    return sorted(nodes, key=lambda node: (-places[index[node]], node))
