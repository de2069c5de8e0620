"""Reads the present phase of an engine's game as plain data."""

from __future__ import annotations

from typing import Any

from services.environments.diplomacy.position import POWERS, PastPhase, Position
from services.environments.diplomacy.rules.legal import build_orders, movement_orders


def read_position(engine: Any, phase: str, is_done: bool = False, past: tuple[PastPhase, ...] = ()) -> Position:
    """The position of an engine's game in ``phase``, its short name; without legal orders when the game is done."""
    powers = engine.powers
    units = {name: tuple(sorted(powers[name].units)) for name in POWERS}
    centers = {name: tuple(sorted(powers[name].centers)) for name in POWERS}
    dislodged: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in POWERS}
    orderable: dict[str, tuple[str, ...]] = dict.fromkeys(POWERS, ())
    adjustments = dict.fromkeys(POWERS, 0)
    legal: dict[str, tuple[str, ...]] = {}
    if is_done:
        return Position(phase, units, dislodged, centers, orderable, legal, adjustments, past)
    if phase[-1] == "M":
        orderable = {name: tuple(unit[2:] for unit in units[name]) for name in POWERS}
        engine._build_list_possible_convoys()
        legal = movement_orders([unit for name in POWERS for unit in units[name]], engine.convoy_paths_dest)
    elif phase[-1] == "R":
        taken = {unit[2:5] for name in POWERS for unit in units[name]}
        for name in POWERS:
            for unit, places in sorted(powers[name].retreats.items()):
                free = tuple(sorted(place for place in places if place[:3] not in taken))
                dislodged[name][unit] = free
                legal[unit[2:]] = tuple(sorted([f"{unit} D", *(f"{unit} R {place}" for place in free)]))
            orderable[name] = tuple(unit[2:] for unit in dislodged[name])
    else:
        for name in POWERS:
            owed = len(centers[name]) - len(units[name])
            if owed > 0:
                orderable[name] = tuple(sorted(engine._build_sites(powers[name])))
                adjustments[name] = min(owed, len(orderable[name]))
                legal.update((site, build_orders(site)) for site in orderable[name])
            elif owed < 0:
                orderable[name] = tuple(unit[2:] for unit in units[name])
                adjustments[name] = owed
                legal.update((unit[2:], (f"{unit} D",)) for unit in units[name])
    return Position(phase, units, dislodged, centers, orderable, legal, adjustments, past)
