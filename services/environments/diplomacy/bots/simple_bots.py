"""Two simple bots: one that holds everything, and one that plays uniformly at random."""

from __future__ import annotations

import random

from services.environments.diplomacy.bots.fill_slots import fill_slots
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.rules.orders import sheet
from services.environments.playing import Bot


class HoldBot(Bot):
    """Holds; disbands instead of retreating; waives builds; when it must disband, takes the first units in order."""

    def actions(self, position: Position, power: str, seed: int) -> tuple[str, ...]:  # noqa: ARG002
        """Hold, disband or waive; ``seed`` is not used."""
        return fill_slots(sheet(position, power), _most_passive)


class RandomBot(Bot):
    """Every order is uniform over the legal alternatives that no earlier order claimed; the weakest anchor."""

    def actions(self, position: Position, power: str, seed: int) -> tuple[str, ...]:
        """One uniform draw per slot."""
        return fill_slots(sheet(position, power), random.Random(seed).choice)


def _most_passive(alternatives: tuple[str, ...]) -> str:
    passive = (order for order in alternatives if order == "WAIVE" or order.endswith((" H", " D")))
    return next(passive, alternatives[0])
