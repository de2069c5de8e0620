"""Orders that keep promises, and orders that break them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from services.environments.diplomacy.bots.dumbbot_values import board, values
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.press.deeds import deed, is_against
from services.environments.diplomacy.press.promises import Promise, breaks


def keeping(orders: Sequence[str], position: Position, power: str, promises: Sequence[Promise]) -> tuple[str, ...]:
    """The legal movement orders of ``power``, changed where they break one of its ``promises``.

    Promised orders are given; of two for one unit, the one that was promised first. A unit whose order breaks a promise
    moves to the place that is worth most to DumbBot among those where it breaks none and meets no own unit, or holds.
    """
    own = [promise for promise in promises if promise.giver == power]
    promised: dict[str, str] = {}
    for promise in own:
        if promise.kind == "ORDER":
            promised.setdefault(_place(promise.about), promise.about)
    others = [promise for promise in own if promise.kind != "ORDER"]

    def is_kept(order: str) -> bool:
        return not any(breaks(promise, order, position) for promise in others)

    found = {_place(order): order for order in orders} | promised
    taken = {goal for order in found.values() if is_kept(order) and (goal := _goal(order, position, power))}
    for place, order in found.items():
        if place not in promised and not is_kept(order):
            found[place] = _instead(place, position, power, is_kept, taken)
    return tuple(found.values())


def breaking(
    orders: Sequence[str], position: Position, power: str, promises: Sequence[Promise], rng: random.Random
) -> tuple[str, ...]:
    """The orders, with an attack on every power that was promised peace and that a unit can attack."""
    found = {_place(order): order for order in orders}
    for promise in promises:
        if promise.giver != power or promise.kind not in ("PEACE", "ALLY"):
            continue
        if any(is_against(order, position, power, promise.partner) for order in found.values()):
            continue
        attacks = [
            order
            for place in position.orderable[power]
            for order in position.legal[place]
            if deed(order, position, power).moves_itself and is_against(order, position, power, promise.partner)
        ]
        if attacks:
            attack = rng.choice(attacks)
            found[_place(attack)] = attack
    return tuple(found.values())


def _instead(place: str, position: Position, power: str, is_kept: Callable[[str], bool], taken: set[str]) -> str:
    worth, here = values(position).places[POWERS.index(power)], board()
    own = {unit[2:5] for unit in position.units[power]}

    def value(order: str) -> float:
        return float(worth[here.node_index[f"{order[0]} {order.split(' - ')[1]}"]])

    moves = [
        order
        for order in position.legal[place]
        if " - " in order and not order.endswith(" VIA") and deed(order, position, power).moves_itself
        if is_kept(order) and order.split(" - ")[1][:3] not in own | taken
        if f"{order[0]} {order.split(' - ')[1]}" in here.node_index
    ]
    if not moves:
        return next(order for order in position.legal[place] if order.endswith(" H"))
    best = max(moves, key=value)
    taken.add(best.split(" - ")[1][:3])
    return best


def _goal(order: str, position: Position, power: str) -> str | None:
    done = deed(order, position, power)
    return done.goal if done.moves_itself else None


def _place(order: str) -> str:
    return order[2:].partition(" ")[0]
