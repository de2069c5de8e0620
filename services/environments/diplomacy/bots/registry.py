"""Bots by name. Their modules import the game's engine, so each is imported when its bot is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from services.environments.playing import Bot

# They negotiate where there is press; their orders are DumbBot's, changed by what they have promised.
NEGOTIATORS = ("honest", "keeper", "breaker", "stabber", "chatter")
BOT_NAMES = ("dumbbot", "greedy", "hold", "lookahead", "random", *NEGOTIATORS)


def make_bot(name: str) -> Bot:
    """Make a bot, which may play any number of games at once. Raises ValueError if there is none of that name."""
    match name:
        case "dumbbot":
            from services.environments.diplomacy.bots.dumbbot import DumbBot

            return DumbBot()
        case "greedy":
            from services.environments.diplomacy.bots.greedy import GreedyBot

            return GreedyBot()
        case "hold":
            from services.environments.diplomacy.bots.simple_bots import HoldBot

            return HoldBot()
        case "lookahead":
            from services.environments.diplomacy.bots.lookahead.lookahead import LookaheadBot

            return LookaheadBot()
        case "random":
            from services.environments.diplomacy.bots.simple_bots import RandomBot

            return RandomBot()
        case "honest" | "keeper" | "breaker" | "stabber" | "chatter" as talker:
            from services.environments.diplomacy.bots.dumbbot import DumbBot
            from services.environments.diplomacy.bots.press.talkers import make_talker

            return make_talker(talker, DumbBot())
    raise ValueError(f"no bot is called {name!r}; there are {', '.join(BOT_NAMES)}")
