"""Legal orders of a whole phase at once, exactly those of the engine's ``get_all_possible_orders``.

A unit's options beside another unit never change, so they are cached; only convoys depend on the positions of fleets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from diplomacy.engine.map import Map

Routes = Mapping[str, Mapping[str, Sequence[frozenset[str]]]]  # start -> end -> the sets of fleets that connect them


@cache
def standard_map() -> Any:
    """Return the engine's standard map (loading takes about 0.1 s, once per process)."""
    return Map("standard")


@cache
def _own_orders(unit: str) -> tuple[str, ...]:
    """Return hold and every move by land or sea, independent of other units."""
    board, kind, place = standard_map(), unit[0], unit[2:]
    moves = (dest for dest in board.dest_with_coasts[place] if board.abuts(kind, place, "-", dest))
    return (f"{unit} H", *(f"{unit} - {dest}" for dest in moves))


@cache
def _supportable(unit: str) -> tuple[str, ...]:
    """Return locations into which ``unit`` can support, with separate coasts."""
    board = standard_map()
    return tuple(dest for dest in board.dest_with_coasts[unit[2:]] if board.abuts(unit[0], unit[2:], "S", dest))


@cache
def _supports(unit: str) -> Mapping[str, tuple[str, ...]]:
    """Return supports without a convoy: the other unit with its location -> the orders that support it."""
    board = standard_map()
    orders: defaultdict[str, set[str]] = defaultdict(set)
    for dest in _supportable(unit):
        for kind in "AF":
            if board.is_valid_unit(f"{kind} {dest}"):
                orders[f"{kind} {dest}"].add(f"{unit} S {kind} {dest}")
        neighbours = board.abut_list(dest, incl_no_coast=True)
        for source in {coast for place in neighbours for coast in board.find_coasts(place)}:
            if source[:3] == unit[2:5]:
                continue
            for kind in "AF":
                if board.abuts(kind, source, "-", dest):
                    helped = f"{kind} {source}"
                    # The coast of a supported move may be left out (DATC 6.B.4).
                    orders[helped].update(f"{unit} S {helped} - {goal}" for goal in (dest, dest[:3]))
    return {other: tuple(lines) for other, lines in orders.items()}


@cache
def build_orders(site: str) -> tuple[str, ...]:
    """Return builds at a free home centre, on all coasts, and the waiver."""
    board = standard_map()
    units = [f"{kind} {place}" for place in board.find_coasts(site) for kind in "AF"]
    return tuple(sorted([f"{unit} B" for unit in units if board.is_valid_unit(unit)] + ["WAIVE"]))


def movement_orders(units: Sequence[str], routes: Routes) -> dict[str, tuple[str, ...]]:
    """Return location -> sorted legal orders of its unit, for all ``units`` on the board."""
    orders = {unit[2:]: list(_own_orders(unit)) for unit in units}
    for unit in units:
        supports = _supports(unit)
        mine = orders[unit[2:]]
        for other in units:
            if other in supports:
                mine += supports[other]
    if routes:
        _add_convoys(orders, units, routes)
    return {place: tuple(sorted(lines)) for place, lines in orders.items()}


def _add_convoys(orders: dict[str, list[str]], units: Sequence[str], routes: Routes) -> None:
    """Add moves by convoy, the convoy orders, and supports of these moves."""
    armies = {unit[2:] for unit in units if unit[0] == "A"}
    landings: defaultdict[str, list[tuple[str, Sequence[frozenset[str]]]]] = defaultdict(list)
    for army in sorted(armies & routes.keys()):
        for dest, paths in routes[army].items():
            landings[dest].append((army, paths))
            orders[army].append(f"A {army} - {dest} VIA")
            for fleet in frozenset().union(*paths):
                orders[fleet].append(f"F {fleet} C A {army} - {dest}")
    for unit in units:
        place, mine = unit[2:], orders[unit[2:]]
        direct = _supports(unit)
        for dest in _supportable(unit):
            for army, paths in landings.get(dest, ()):
                # A fleet cannot support a move that only it can convoy.
                if army == place[:3] or all(place in path for path in paths):
                    continue
                order = f"{unit} S A {army} - {dest}"
                if order not in direct.get(f"A {army}", ()):
                    mine.append(order)
