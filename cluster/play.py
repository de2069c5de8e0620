"""One game between named players, saved in the engine's own format."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from cluster.errors import RunError
from cluster.seating import open_policy
from opponents.policy import Policy
from opponents.table import GameRecord, play_game
from services.environments.diplomacy.game import DiplomacyGame


def play(seats: Mapping[str, str], until_year: int, seed: int, out: Path) -> GameRecord:
    """Play and save one game.

    Args:
        seats: a player for each power: bot name, checkpoint or run folder.
        until_year: last year played to its end.
        seed: of bots and sampling; the same seed plays the same game.
        out: where the game is saved (JSON).

    Raises:
        RunError: an unknown player, or the file cannot be written.
    """
    players: dict[str, Policy] = {name: open_policy(name) for name in sorted(set(seats.values()))}
    game = DiplomacyGame(until_year, game_id=out.stem)
    record = asyncio.run(play_game(game, {power: players[name] for power, name in seats.items()}, seed))
    try:
        game.save(out)
    except OSError as error:
        raise RunError(f"cannot save the game to {out}: {error.strerror}") from error
    return record
