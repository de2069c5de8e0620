"""One game between named players, saved in the engine's own format."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from cluster.errors import RunError
from cluster.evaluation.players import open_policy
from opponents.play import GameRecord, play_game
from opponents.players.chat_players import ChatPlayers
from opponents.players.policy import Policy
from services.environments.diplomacy.game import DiplomacyGame


def play(
    seats: Mapping[str, str], until_year: int, seed: int, out: Path, remotes: ChatPlayers | None = None
) -> GameRecord:
    """Play and save one game.

    Args:
        seats: a player for each power: bot name, checkpoint or run folder, remote:NAME.
        until_year: last year played to its end.
        seed: seeds bots and sampling; the same seed plays the same game.
        out: where the game is saved (JSON).
        remotes: the remote players that may be named; closed when the game is over.

    Raises:
        RunError: an unknown player, or the file cannot be written.
        EndpointError: an unknown remote, or one that does not answer.
    """
    remotes = remotes or ChatPlayers({})
    players: dict[str, Policy] = {name: open_policy(name, remotes) for name in sorted(set(seats.values()))}
    game = DiplomacyGame(until_year, game_id=out.stem)

    async def play_out() -> GameRecord:
        try:
            return await play_game(game, {power: players[name] for power, name in seats.items()}, seed)
        finally:
            await remotes.close()

    record = asyncio.run(play_out())
    try:
        game.save(out)
    except OSError as error:
        raise RunError(f"cannot save the game to {out}: {error.strerror}") from error
    return record
