"""Notes on an order sheet: what lies around a unit, written before its order for policies that ask for them.

A note names the places where the unit may stand after the phase, each followed by a word of four parts:

- the steps from there to the nearest supply centre that the power does not own, 0 to 4 (4: four, more, or no way);
- ``c`` if it is a centre that the power owns;
- what stands there: ``e`` no unit (empty), ``o`` an own one, ``f`` a foreign one;
- the most units of any one other power that can move in, and the power's own such units, 0 to 3 each (3: or more).

The word for its own place comes first, without the place; the others follow in the order of their words, so that the
nearest centre comes first. Convoys count for nothing here. Example, of the unit in Paris at the start of a game::

    2co00 PIC 1e02 GAS 1e03 BUR 1e12 BRE 2co01
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product

from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.geography import distances_to, geography, province

MOST_STEPS, MOST_UNITS = 4, 3  # more is written as so many
_OWN, _EMPTY, _FOREIGN = "o", "e", "f"


@cache
def note_words() -> tuple[str, ...]:
    """The words that describe places."""
    steps, units = range(MOST_STEPS + 1), range(MOST_UNITS + 1)
    parts = product(steps, ("", "c"), (_OWN, _EMPTY, _FOREIGN), units, units)
    return tuple("".join(map(str, each)) for each in parts if not (each[0] == 0 and each[1]))


def notes(position: Position, power: str) -> tuple[str, ...]:
    """A note for each slot of ``power``'s sheet.

    Builds and disbands have one note for all, before the first: the units that may be built or disbanded, each with the
    word for its place.
    """
    described = _describer(position, power)
    if position.kind == "A":
        owed = abs(position.adjustments[power])
        listed = (f"{unit} {described(unit)}" for unit in _adjustable(position, power))
        return (" ".join(listed), *[""] * (owed - 1))[:owed]

    if position.kind == "R":
        reached: Mapping[str, Sequence[str]] = position.dislodged[power]
    else:
        reached = {unit: [node[2:] for node in geography().neighbors[unit]] for unit in position.units[power]}
    by_place = {unit[2:]: unit for unit in reached}

    def note(unit: str) -> str:
        around = sorted((described(f"{unit[0]} {place}"), place) for place in reached[unit])
        return " ".join((described(unit), *(f"{place} {word}" for word, place in around)))

    return tuple(note(by_place[place]) for place in position.orderable[power])


def _adjustable(position: Position, power: str) -> Iterator[str]:
    """The units that a power may disband or, where it builds, that it may build."""
    if position.adjustments[power] < 0:
        yield from position.units[power]
        return
    for place in position.orderable[power]:
        yield from (order[:-2] for order in position.legal[place] if order.endswith(" B"))


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
            f"{_EMPTY if holder is None else _OWN if holder == power else _FOREIGN}"
            f"{min(foreign, MOST_UNITS)}{min(entering[power, place], MOST_UNITS)}"
        )

    return cache(describe)


def _units(position: Position) -> tuple[dict[str, str], Counter[tuple[str, str]]]:
    """Who stands in each province, and how many units of each power can move into it; shared by all seats."""
    known: tuple[dict[str, str], Counter[tuple[str, str]]] | None = position.memo.get(notes)
    if known is None:
        holders = {province(unit[2:]): power for power in POWERS for unit in position.units.get(power, ())}
        entering = Counter(
            (power, place)
            for power in POWERS
            for unit in position.units.get(power, ())
            for place in _provinces_around(unit)
        )
        known = position.memo[notes] = holders, entering
    return known


@cache
def _provinces_around(unit: str) -> frozenset[str]:
    return frozenset(province(node[2:]) for node in geography().neighbors[unit])
