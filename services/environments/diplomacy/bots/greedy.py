"""A greedy bot: every unit goes for the nearest centre that its power does not own.

The value of a step, for a unit that could stand at a place after this phase:

- a supply centre the power does not own: 3 if the province is empty, 2 if a foreign unit stands there;
- staying on an own centre that a foreign unit could enter at once: 1;
- otherwise ``1 / (1 + steps)``, where steps is the unit's distance to the nearest centre the power does not own
  (0 if it cannot reach any); so always at most 1/2.

Movement: the best (unit, place) pair is settled first, ties at random. Two units never go to one province, and no unit
enters a province of an own unit that is not ordered out yet. A unit that stays supports the best own attack on an
occupied province in its reach, or else holds. There are no convoys. Retreats go to the best free place, no two to one
province. Builds take the unit-locations nearest to a centre the power does not own; disbands the farthest units.
"""

from __future__ import annotations

import random

from services.environments.diplomacy.bots.fill_slots import fill_slots
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.rules.geography import distances_to, geography, province
from services.environments.diplomacy.rules.orders import sheet
from services.environments.playing import Bot

EMPTY_CENTER, GUARDED_CENTER, THREATENED_HOME = 3.0, 2.0, 1.0


class GreedyBot(Bot):
    """Takes the nearest centres and supports own attacks, without planning ahead."""

    def actions(self, position: Position, power: str, seed: int) -> tuple[str, ...]:
        """Orders by the rules above."""
        rng = random.Random(seed)
        view = _View(position, power)
        if position.kind == "M":
            return _movement(view, rng)
        if position.kind == "R":
            return _retreats(view, rng)
        return _adjustments(view, rng)


class _View:
    """The data with which one power values the places of one position."""

    def __init__(self, position: Position, power: str) -> None:
        self.position = position
        self.power = power
        self.own_centers = frozenset(position.centers[power])
        wanted = [center for center in geography().centers if center not in self.own_centers]
        self.steps = distances_to(wanted)
        foreign = [unit for other, units in position.units.items() if other != power for unit in units]
        self.guarded = frozenset(province(unit[2:]) for unit in foreign)
        self.threatened = frozenset(province(node[2:]) for unit in foreign for node in geography().neighbors[unit])

    def nearness(self, node: str) -> float:
        """``1 / (1 + steps)`` to the nearest centre not owned; 0 if out of reach."""
        return 1 / (1 + self.steps[node]) if node in self.steps else 0.0

    def worth(self, node: str, *, staying: bool) -> float:
        """The value that the module's docstring defines, for a unit at ``node`` after this phase."""
        place = province(node[2:])
        if self.steps.get(node) == 0:
            return GUARDED_CENTER if place in self.guarded else EMPTY_CENTER
        if staying and place in self.own_centers and place in self.threatened:
            return THREATENED_HOME
        return self.nearness(node)


def _movement(view: _View, rng: random.Random) -> tuple[str, ...]:
    units = sorted(view.position.units[view.power])
    steps = [(view.worth(unit, staying=True), rng.random(), unit, unit) for unit in units]
    steps += [
        (view.worth(node, staying=False), rng.random(), unit, node)
        for unit in units
        for node in geography().neighbors[unit]
    ]
    steps.sort(reverse=True)
    occupied = {province(unit[2:]): unit for unit in units}
    goal: dict[str, str] = {}  # unit -> unit-location it will stand at
    taken: set[str] = set()  # provinces of those

    def is_open(node: str, unit: str) -> bool:
        occupant = occupied.get(province(node[2:]))
        return occupant is None or occupant == unit or goal.get(occupant, occupant) != occupant

    while len(goal) < len(units):
        # A province of an own unit opens once that unit is ordered out, so look again from the top each time.
        unit, node = next(
            (unit, node)
            for _, _, unit, node in steps
            if unit not in goal and province(node[2:]) not in taken and is_open(node, unit)
        )
        goal[unit] = node
        taken.add(province(node[2:]))
    return tuple(_written(view, unit, goal) for unit in units)


def _written(view: _View, unit: str, goal: dict[str, str]) -> str:
    if goal[unit] != unit:
        return f"{unit} - {goal[unit][2:]}"
    legal = view.position.legal[unit[2:]]
    attacks = sorted(
        (
            (view.worth(node, staying=False), f"{unit} S {mover} - {node[2:]}")
            for mover, node in goal.items()
            if node != mover and province(node[2:]) in view.guarded
        ),
        reverse=True,
    )
    return next((support for _, support in attacks if support in legal), f"{unit} H")


def _retreats(view: _View, rng: random.Random) -> tuple[str, ...]:
    taken: set[str] = set()
    orders = []
    for unit, places in sorted(view.position.dislodged[view.power].items()):
        free = [
            (view.worth(f"{unit[0]} {place}", staying=False), rng.random(), place)
            for place in places
            if province(place) not in taken and f"{unit} R {place}" in view.position.legal[unit[2:]]
        ]
        if free:
            _, _, place = max(free)
            taken.add(province(place))
            orders.append(f"{unit} R {place}")
        else:
            orders.append(f"{unit} D")
    return tuple(orders)


def _adjustments(view: _View, rng: random.Random) -> tuple[str, ...]:
    sign = 1 if view.position.adjustments[view.power] > 0 else -1

    def choose(alternatives: tuple[str, ...]) -> str:
        units = [order for order in alternatives if order != "WAIVE"]
        if not units:
            return "WAIVE"
        return max((sign * view.nearness(order[:-2]), rng.random(), order) for order in units)[2]

    return fill_slots(sheet(view.position, view.power), choose)
