"""What powers did with the units of their movement phases, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from services.environments.diplomacy.rules.decisive_supports import decisive_supports
from services.environments.diplomacy.rules.movement import Movement


@dataclass(slots=True)
class OrderCounts:
    """Sums over the movement phases of a game, of one power."""

    units: int = 0  # that could be ordered; each has exactly one of the four kinds of orders
    holds: int = 0  # also of units without a legal order
    moves: int = 0
    supports: int = 0
    convoys: int = 0
    supports_of_others: int = 0  # supports of another power's unit
    supports_decisive: int = 0
    decisive_of_others: int = 0
    supports_received: int = 0  # those that counted, from any power, the own one included
    written: int = 0  # orders of all phases, as the player wrote them
    written_legal: int = 0

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the unit's orders in movement phases, and of legal orders among the written ones (1 for none)."""
        units = max(self.units, 1)
        return {
            "legal_order_share": self.written_legal / self.written if self.written else 1.0,
            "hold_share": self.holds / units,
            "support_share": self.supports / units,
            "foreign_support_share": self.supports_of_others / units,
            "supports_received": self.supports_received / units,
            "effective_support_share": self.supports_decisive / units,
            "effective_foreign_support_share": self.decisive_of_others / units,
            "convoy_share": self.convoys / units,
        }


def count_movement(counts: Mapping[str, OrderCounts], movement: Movement) -> None:
    """Add one movement phase to the counts of all powers."""
    orders = movement.orders
    for order in orders.values():
        mine = counts[order.power]
        mine.units += 1
        if order.kind == "H":
            mine.holds += 1
        elif order.kind == "-":
            mine.moves += 1
        elif order.kind == "C":
            mine.convoys += 1
        else:
            mine.supports += 1
            helped = orders.get(order.target)
            mine.supports_of_others += helped is not None and helped.power != order.power
    for place, supports in movement.supports.items():
        counts[orders[place].power].supports_received += len(supports)
    for support in decisive_supports(movement):
        counts[support.power].supports_decisive += 1
        counts[support.power].decisive_of_others += orders[support.target].power != support.power
