"""The standard map as unit-locations (``A PAR``, ``F STP/SC``) and the steps between them, without convoys."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True, eq=False)
class Geography:
    """Adjacency of the standard map; every collection is sorted."""

    nodes: tuple[str, ...]  # all unit-locations
    neighbors: Mapping[str, tuple[str, ...]]  # unit-location -> unit-locations one step away (a symmetric relation)
    centers: tuple[str, ...]  # the 34 provinces with a supply centre


@cache
def geography() -> Geography:
    """The map, read from the engine once."""
    from diplomacy import Map  # here, because the configuration's checks import the bots' names without a game

    engine_map = Map()
    # The engine also lists the three split provinces in lower case: places for armies, though not for fleets.
    places = {place.upper(): kind for place, kind in engine_map.loc_type.items() if kind != "SHUT"}
    armies = [f"A {place}" for place, kind in places.items() if kind != "WATER" and "/" not in place]
    split = {place[:3] for place in places if "/" in place}
    fleets = [f"F {place}" for place, kind in places.items() if kind != "LAND" and place not in split]
    nodes = tuple(sorted(armies + fleets))
    neighbors = {
        node: tuple(
            other
            for other in nodes
            if other[0] == node[0] and other != node and engine_map.abuts(node[0], node[2:], "-", other[2:])
        )
        for node in nodes
    }
    return Geography(nodes, neighbors, tuple(sorted(engine_map.scs)))


def province(place: str) -> str:
    """The province of a location with or without a coast: ``STP`` of ``STP/SC``."""
    return place[:3]


def distances_to(targets: Iterable[str]) -> dict[str, int]:
    """Steps from every unit-location to the nearest target province; unreachable ones are left out."""
    wanted = frozenset(targets)
    world = geography()
    steps = {node: 0 for node in world.nodes if province(node[2:]) in wanted}
    frontier = deque(steps)
    while frontier:
        node = frontier.popleft()
        for other in world.neighbors[node]:
            if other not in steps:
                steps[other] = steps[node] + 1
                frontier.append(other)
    return steps
