"""Bots by name."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from opponents.bots.bot import Bot
from opponents.bots.dumbbot import DumbBot
from opponents.bots.greedy import GreedyBot
from opponents.bots.simple_bots import HoldBot, RandomBot

_BOTS = MappingProxyType[str, Callable[[], Bot]](
    {"dumbbot": DumbBot, "greedy": GreedyBot, "hold": HoldBot, "random": RandomBot}
)
BOT_NAMES = tuple(_BOTS)


def make_bot(name: str) -> Bot:
    """Make a bot, which may play any number of games at once. Raises ValueError if there is none of that name."""
    try:
        return _BOTS[name]()
    except KeyError:
        raise ValueError(f"no bot is called {name!r}; there are {', '.join(BOT_NAMES)}") from None
