"""Positions to test players with, from games between bots."""

from __future__ import annotations

from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import Position


def played_positions(bot: str, until_year: int, seed: int) -> list[Position]:
    """Every position of a game that the same bot plays in all seats; greedy bots bring retreats and adjustments."""
    game, player = DiplomacyGame(until_year), make_bot(bot)
    found = []
    while not game.is_done:
        found.append(game.position)
        for power in game.position.to_move:
            game.set_orders(power, player.actions(game.position, power, seed))
        game.process()
    return found
