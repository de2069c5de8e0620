"""What lies around a power's units, as words that follow the compact notation for policies that read details.

Each unit that has something to decide is named with every place it may stand at after the phase, its own first, and
each place is followed by a word of four parts:

- the steps from there to the nearest supply centre that the power does not own, 0 to 4 (4: four, more, or no way);
- ``c`` if it is a centre that the power owns;
- who stands there: ``e`` nobody, ``o`` a unit of the power, ``f`` a foreign one;
- the most units of any one other power that can move in, and the power's own such units, 0 to 3 each (3: or more).

Convoys count for nothing here. Example, of the unit in Paris at the start of a game::

    A PAR 2co00 BRE 2co01 BUR 1e12 GAS 1e03 PIC 1e02
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product

from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.geography import distances_to, geography, province

MOST_STEPS, MOST_UNITS = 4, 3  # more is written as so many
_OWN, _NOBODY, _FOREIGN = "o", "e", "f"


@cache
def surrounding_words() -> tuple[str, ...]:
    """The words that follow places."""
    steps, units = range(MOST_STEPS + 1), range(MOST_UNITS + 1)
    parts = product(steps, ("", "c"), (_OWN, _NOBODY, _FOREIGN), units, units)
    return tuple("".join(map(str, each)) for each in parts if not (each[0] == 0 and each[1]))


def surroundings(position: Position, power: str) -> str:
    """The units of ``power`` that decide something in this phase, or where it may build, with the places around."""
    described = _describer(position, power)

    def line(node: str, places: tuple[str, ...]) -> str:
        around = " ".join(f"{place} {described(f'{node[0]} {place}')}" for place in places)
        return f"{node} {described(node)} {around}".rstrip()

    return ", ".join(line(node, places) for node, places in _deciding(position, power))


def _deciding(position: Position, power: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Unit-locations, and the places to which their units may go."""
    if position.kind == "M":
        for unit in position.units[power]:
            yield unit, tuple(node[2:] for node in geography().neighbors[unit])
    elif position.kind == "R":
        yield from position.dislodged[power].items()
    elif position.adjustments[power] < 0:
        for unit in position.units[power]:
            yield unit, ()
    else:
        for place in position.orderable[power]:
            for order in position.legal[place]:
                if order.endswith(" B"):
                    yield order[:-2], ()


def _describer(position: Position, power: str) -> Callable[[str], str]:
    """The word for a unit-location, as a place of a unit of ``power``."""
    own = frozenset(position.centers[power])
    steps = distances_to(center for center in geography().centers if center not in own)
    holders, entering = _units(position)

    def describe(node: str) -> str:
        place = province(node[2:])
        holder = holders.get(place)
        foreign = max((entering[other, place] for other in POWERS if other != power), default=0)
        return (
            f"{min(steps.get(node, MOST_STEPS), MOST_STEPS)}{'c' if place in own else ''}"
            f"{_NOBODY if holder is None else _OWN if holder == power else _FOREIGN}"
            f"{min(foreign, MOST_UNITS)}{min(entering[power, place], MOST_UNITS)}"
        )

    return cache(describe)


def _units(position: Position) -> tuple[dict[str, str], Counter[tuple[str, str]]]:
    """Who stands in each province, and how many units of each power can move into it; shared by all seats."""
    known: tuple[dict[str, str], Counter[tuple[str, str]]] | None = position.memo.get(surroundings)
    if known is None:
        holders = {province(unit[2:]): power for power in POWERS for unit in position.units.get(power, ())}
        entering = Counter(
            (power, place)
            for power in POWERS
            for unit in position.units.get(power, ())
            for place in _provinces_around(unit)
        )
        known = position.memo[surroundings] = holders, entering
    return known


@cache
def _provinces_around(unit: str) -> frozenset[str]:
    return frozenset(province(node[2:]) for node in geography().neighbors[unit])
