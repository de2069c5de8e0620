"""Order sheets worth a look: what bots would write, and these with one order changed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from services.environments.diplomacy.position import Position
from services.environments.diplomacy.rules.orders import sheet
from services.environments.playing import Bot, Slot

DRAWS_OF_A_BOT = 6  # its sheets are random in part
CHANGES_TRIED = 4  # for each sheet still wanted: many give one that is there already
SHARE_OF_SUPPORTS = 0.5  # of changes


def candidate_sheets(
    position: Position,
    power: str,
    bots: Sequence[Bot],
    count: int,
    rng: random.Random,
    proposed: Sequence[tuple[str, ...]] = (),
) -> list[tuple[str, ...]]:
    """At most ``count`` different legal sheets of ``power``; one if there is no choice.

    First come those ``proposed`` and those of ``bots``, then such with one order changed.
    """
    found = dict.fromkeys(_sorted(position, orders) for orders in proposed)  # an ordered set
    for bot in bots:
        for _ in range(DRAWS_OF_A_BOT):
            found.setdefault(_sorted(position, bot.actions(position, power, rng.getrandbits(63))))
    written = list(found)[:count]
    found = dict.fromkeys(written)
    for _ in range(CHANGES_TRIED * (count - len(found))):
        if len(found) == count:
            break
        found.setdefault(changed_sheet(position, power, rng.choice(written), rng))
    return list(found)


def changed_sheet(position: Position, power: str, orders: tuple[str, ...], rng: random.Random) -> tuple[str, ...]:
    """The sheet with another legal order in one slot; the same sheet where none is found.

    Every other time a unit supports one of the sheet's moves, if any can: among all legal orders such supports are
    rare, and nothing else beats a unit that stands. Otherwise the order is drawn evenly.
    """
    slots = sheet(position, power)
    supports = _supports_of(orders, slots) if rng.random() < SHARE_OF_SUPPORTS else []
    if supports:
        number, order = rng.choice(supports)
        return (*orders[:number], order, *orders[number + 1 :])
    number = rng.randrange(len(slots))
    slot = slots[number]
    taken = {
        _claim(other, order) for index, (other, order) in enumerate(zip(slots, orders, strict=True)) if index != number
    }
    free = [
        order
        for order, claim in zip(slot.alternatives, slot.claims, strict=True)
        if order != orders[number] and (claim is None or claim not in taken)
    ]
    if not free:
        return orders
    return _sorted(position, (*orders[:number], rng.choice(free), *orders[number + 1 :]))


def _supports_of(orders: tuple[str, ...], slots: Sequence[Slot]) -> list[tuple[int, str]]:
    """The supports of moves among ``orders`` that are not ordered, with the number of their slot."""
    moves = {order for order in orders if " - " in order and " S " not in order}
    return [
        (number, order)
        for number, slot in enumerate(slots)
        for order in slot.alternatives
        if order != orders[number] and order.partition(" S ")[2] in moves
    ]


def _claim(slot: Slot, order: str) -> str | None:
    return slot.claims[slot.alternatives.index(order)]


def _sorted(position: Position, orders: tuple[str, ...]) -> tuple[str, ...]:
    """Builds and disbands in one sequence, so that the same choice is one sheet; other orders belong to their slots."""
    return tuple(sorted(orders)) if position.kind == "A" else orders
