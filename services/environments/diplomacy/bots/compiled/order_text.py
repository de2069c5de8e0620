"""Orders as text, and as the entries of ``Orders``."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from services.environments.diplomacy.bots.compiled.state import DISBAND, HOLD, MOVE, SUPPORT, Orders, State
from services.environments.diplomacy.bots.dumbbot_values import board as index_arrays
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.geography import geography, province


class ParsedOrder(NamedTuple):
    """One order: where its unit stands (or is built), and the entries of ``Orders`` there."""

    at: int
    kind: int
    aim: int
    helped: int
    node: int


@lru_cache(maxsize=1 << 16)
def parse_order(order: str) -> ParsedOrder | None:
    """The entries of a legal order, no WAIVE; None for convoys, moves by convoy among them."""
    known = index_arrays()
    unit, words = order[: order.index(" ", 2)], order.split()
    at, here = known.province_index[unit[2:5]], known.node_index[unit]
    match words[2:]:
        case ["H"]:
            return ParsedOrder(at, HOLD, at, at, here)
        case ["-", place]:
            aim = known.province_index[province(place)]
            return ParsedOrder(at, MOVE, aim, at, known.node_index[f"{unit[0]} {place}"])
        case ["S", kind, place, *move]:
            helped = known.province_index[province(place)]
            aim = known.province_index[province(move[1])] if move else helped
            # An army that names a coast helps no fleet that goes to the other one; a fleet does (DATC 6.B.4).
            node = known.node_index.get(f"{kind} {move[1]}", -1) if move and unit[0] == "A" else -1
            return ParsedOrder(at, SUPPORT, aim, helped, node)
        case ["R", place]:
            return ParsedOrder(at, HOLD, at, at, known.node_index[f"{unit[0]} {place}"])
        case ["D"]:
            return ParsedOrder(at, DISBAND, at, at, -1)
        case ["B"]:
            return ParsedOrder(at, HOLD, at, at, here)
    return None


def movement_texts(state: State, orders: Orders) -> dict[str, tuple[str, ...]]:
    """The movement orders of each power as text."""
    names = geography().nodes
    found: dict[str, list[str]] = {power: [] for power in POWERS}
    for at, node in enumerate(state.unit):
        if node >= 0:
            text = names[node]
            helped = names[state.unit[orders.helped[at]]]
            if orders.kind[at] == MOVE:
                text += f" - {names[orders.node[at]][2:]}"
            elif orders.kind[at] != SUPPORT:
                text += " H"
            elif orders.kind[orders.helped[at]] == MOVE:
                text += f" S {helped} - {names[orders.node[orders.helped[at]]][2:]}"
            else:
                text += f" S {helped}"
            found[POWERS[state.power[at]]].append(text)
    return {power: tuple(texts) for power, texts in found.items()}
