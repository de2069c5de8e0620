"""Uniformly random legal play, the weakest anchor."""

from __future__ import annotations

import random

from opponents.bots.bot import Bot
from opponents.bots.sheets import fill
from services.environments.diplomacy.orders import sheet
from services.environments.diplomacy.position import Position


class RandomBot(Bot):
    """Every order uniform over what is legal there and not yet used up by an earlier one."""

    def orders(self, position: Position, power: str, seed: int) -> tuple[str, ...]:
        """One uniform draw a slot."""
        return fill(sheet(position, power), random.Random(seed).choice)
