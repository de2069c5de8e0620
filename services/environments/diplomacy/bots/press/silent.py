"""A bot that plays in games with press and says nothing."""

from __future__ import annotations

from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.view import writes_press
from services.environments.playing import Bot


class SilentBot(Bot):
    """Gives another bot's orders; it writes no letters, and reads none."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot
        self.is_slow = bot.is_slow

    def actions(self, position: Position, power: str, seed: int) -> tuple[str, ...]:
        """The other bot's orders; () where letters are due."""
        return () if writes_press(position) else self._bot.actions(position, power, seed)
