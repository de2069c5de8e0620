"""The base class of scripted players, and filling an order sheet slot by slot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from opponents.players.policy import Decision
from services.environments.diplomacy.orders import OrderSlot
from services.environments.diplomacy.position import Position


class Bot(ABC):
    """A stateless scripted policy: the same position, power and seed give the same orders."""

    @abstractmethod
    def orders(self, position: Position, power: str, seed: int) -> tuple[str, ...]:
        """Legal orders of ``power``, one for everything it must order; () if it has nothing to decide."""

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        """Return ``orders`` as a ``Decision``; never suspends."""
        return Decision(self.orders(position, power, seed))


def fill_slots(slots: Iterable[OrderSlot], choose: Callable[[tuple[str, ...]], str]) -> tuple[str, ...]:
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
