"""A bot that also votes on draws."""

from __future__ import annotations

from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.view import writes_press
from services.environments.diplomacy.rules.draw_votes import DRAW, accepts_draw, takes_votes
from services.environments.playing import Bot


class DrawVoter(Bot):
    """Gives another bot's orders, and votes as ``accepts_draw`` says."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot
        self.is_slow = bot.is_slow

    def actions(self, position: Position, power: str, seed: int) -> tuple[str, ...]:
        """The other bot's orders, with a vote for a draw wherever it wants one."""
        orders = self._bot.actions(position, power, seed)
        if writes_press(position):
            return orders
        return (*orders, DRAW) if takes_votes(position, power) and accepts_draw(position, power) else orders
