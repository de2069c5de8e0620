"""Filling an order sheet slot by slot."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from services.environments.diplomacy.orders import OrderSlot


def fill(slots: Iterable[OrderSlot], choose: Callable[[tuple[str, ...]], str]) -> tuple[str, ...]:
    """One order a slot; ``choose`` sees the alternatives whose claim no earlier order took (never none)."""
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
