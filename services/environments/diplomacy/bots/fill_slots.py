"""Filling an order sheet slot by slot."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from services.environments.playing import Slot


def fill_slots(slots: Iterable[Slot], choose: Callable[[tuple[str, ...]], str]) -> tuple[str, ...]:
    """Choose one order per slot; ``choose`` gets the alternatives whose claim no earlier order took (at least one)."""
    taken: set[str] = set()
    orders: list[str] = []
    for slot in slots:
        free = slot.alternatives
        if taken:
            free = tuple(
                order for order, claim in zip(free, slot.claims, strict=True) if claim is None or claim not in taken
            )
        order = choose(free)
        claim = slot.claims[slot.alternatives.index(order)]
        if claim is not None:
            taken.add(claim)
        orders.append(order)
    return tuple(orders)
