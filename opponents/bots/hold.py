"""The bot that does nothing: a floor for every measurement and a still opponent for tests."""

from __future__ import annotations

from opponents.bots.bot import Bot
from opponents.bots.sheets import fill
from services.environments.diplomacy.orders import sheet
from services.environments.diplomacy.position import Position


class HoldBot(Bot):
    """Holds; disbands rather than retreats; waives builds; disbands the first units in order when it must."""

    def orders(self, position: Position, power: str, seed: int) -> tuple[str, ...]:  # noqa: ARG002
        """The orders that change least; ``seed`` is not used."""
        return fill(sheet(position, power), _most_passive)


def _most_passive(alternatives: tuple[str, ...]) -> str:
    for order in alternatives:
        if order == "WAIVE" or order.endswith((" H", " D")):
            return order
    return alternatives[0]
