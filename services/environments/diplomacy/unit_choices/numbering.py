"""Numbers of orders that mean the same wherever a unit stands: hold, the first neighbour, support for the second ...

A unit's neighbours are counted in the sequence of ``Geography``. The others, which concern convoys or differ from one
before in a coast alone, are counted among themselves in alphabetical sequence, so that every legal order has a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from services.environments.diplomacy.rules.geography import geography, province
from services.environments.diplomacy.rules.orders import WAIVE

_MOST_OTHERS = 512


@cache
def _reach() -> Mapping[str, tuple[str, ...]]:
    """Unit-location -> the provinces that it reaches in one step, sorted."""
    world = geography()
    return {node: tuple(sorted({province(other[2:]) for other in steps})) for node, steps in world.neighbors.items()}


@cache
def _entering() -> Mapping[str, tuple[str, ...]]:
    """Province -> the provinces from which armies or fleets step into it, sorted."""
    found: dict[str, set[str]] = {}
    for node, reached in _reach().items():
        for place in reached:
            found.setdefault(place, set()).add(province(node[2:]))
    return {place: tuple(sorted(origins)) for place, origins in found.items()}


@cache
def _sizes() -> tuple[int, int, int]:
    """The most neighbours of a unit-location, provinces in its reach, and provinces from which one is entered."""
    return (
        max(map(len, geography().neighbors.values())),
        max(map(len, _reach().values())),
        max(map(len, _entering().values())),
    )


@cache
def _bases() -> Mapping[str, int]:
    """The first number of each kind of order, and in the end their count."""
    steps, reached, entering = _sizes()
    nodes = len(geography().nodes)
    kinds = {"hold": 1, "move": steps, "support": reached, "support_move": reached * entering, "disband": 1,
             "build": nodes, "remove": nodes, "waive": 1, "other": _MOST_OTHERS}  # fmt: skip
    bases, total = {}, 0
    for kind, count in kinds.items():
        bases[kind] = total
        total += count
    return {**bases, "count": total}


def count() -> int:
    """How many numbers there are."""
    return _bases()["count"]


def numbered(choices: Sequence[str], *, adjusts: bool) -> dict[int, str]:
    """The choices of one slot of a sheet by their numbers; ``adjusts``: they are builds or disbands of any unit.

    Raises ValueError if more orders are of other kinds than there are numbers for them.
    """
    bases = _bases()
    found: dict[int, str] = {}
    others = []
    for order in choices:
        number = _site(order) if adjusts else _from_unit(order)
        if number is None or number in found:
            others.append(order)
        else:
            found[number] = order
    if len(others) > _MOST_OTHERS:
        raise ValueError(f"a unit has {len(others)} orders of other kinds, for which there are {_MOST_OTHERS} numbers")
    found.update(enumerate(sorted(others), bases["other"]))
    return found


def _site(order: str) -> int:
    """The number of a build or disband: by where it is."""
    bases = _bases()
    if order == WAIVE:
        return bases["waive"]
    unit, _, kind = order.rpartition(" ")
    return bases["build" if kind == "B" else "remove"] + geography().nodes.index(unit)


def _from_unit(order: str) -> int | None:
    """The number of an order of a unit that stands or retreats; None: it is of another kind."""
    bases, words = _bases(), order.split()
    unit = f"{words[0]} {words[1]}"
    match words[2:]:
        case ["H"]:
            return bases["hold"]
        case ["D"]:
            return bases["disband"]
        case ["-" | "R", goal]:
            return _ranked(bases["move"], geography().neighbors[unit], f"{words[0]} {goal}")
        case ["S", _, place]:
            return _ranked(bases["support"], _reach()[unit], province(place))
        case ["S", _, start, "-", goal]:
            goals, starts = _reach()[unit], _entering()[province(goal)]
            if province(goal) in goals and province(start) in starts:
                entering = _sizes()[2]
                at = goals.index(province(goal)) * entering + starts.index(province(start))
                return bases["support_move"] + at
    return None


def _ranked(base: int, places: Sequence[str], place: str) -> int | None:
    return base + places.index(place) if place in places else None


def kinds() -> Iterator[tuple[str, int]]:
    """The kinds of orders, each with its first number."""
    yield from _bases().items()
