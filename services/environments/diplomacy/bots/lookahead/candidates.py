"""Order sheets worth a look: what bots would write, and these with one order changed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from services.environments.diplomacy.position import Position
from services.environments.diplomacy.rules.orders import sheet
from services.environments.playing import Bot, Slot

DRAWS_OF_A_BOT = 6  # its sheets are random in part
CHANGES_TRIED = 4  # for each sheet still wanted: many give one that is there already


def candidate_sheets(
    position: Position, power: str, bots: Sequence[Bot], count: int, rng: random.Random
) -> list[tuple[str, ...]]:
    """At most ``count`` different legal sheets of ``power``, those of ``bots`` first; one if there is no choice."""
    found: dict[tuple[str, ...], None] = {}  # an ordered set
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
    """The sheet with another legal order in one slot, drawn evenly; the same sheet where that slot has no other."""
    slots = sheet(position, power)
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


def _claim(slot: Slot, order: str) -> str | None:
    return slot.claims[slot.alternatives.index(order)]


def _sorted(position: Position, orders: tuple[str, ...]) -> tuple[str, ...]:
    """Builds and disbands in one sequence, so that the same choice is one sheet; other orders belong to their slots."""
    return tuple(sorted(orders)) if position.kind == "A" else orders
