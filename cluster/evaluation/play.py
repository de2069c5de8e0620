"""Games without a cluster: one game between named players, and the evaluation of one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.evaluation.evaluation_games import (
    EvaluationGame,
    EvaluationResult,
    evaluation_games,
    play_evaluation_game,
    summarize,
)
from cluster.evaluation.players import open_policy
from cluster.runs.progress_bars import AddBar
from opponents.play import GameRecord, play_game
from opponents.players.chat_players import ChatPlayers
from services.environments.diplomacy.game import DiplomacyGame

CONCURRENT_GAMES = 64


def play(seats: Mapping[str, str], until_year: int, seed: int, out: Path, remotes: ChatPlayers) -> GameRecord:
    """Play one game to the end of ``until_year`` and save it to ``out`` (JSON); the same seed plays the same game.

    ``seats`` names each power's player: bot name, checkpoint or run folder, remote:NAME of ``remotes``, which are
    closed when the game is over.

    Raises RunError for an unknown player, StorageError if the file cannot be written, EndpointError for an unknown
    remote player or one that does not answer.
    """
    players = {name: open_policy(name, remotes) for name in sorted(set(seats.values()))}
    game = DiplomacyGame(until_year, game_id=out.stem)

    async def play_out() -> GameRecord:
        try:
            return await play_game(game, {power: players[name] for power, name in seats.items()}, seed)
        finally:
            await remotes.close()

    record = asyncio.run(play_out())
    game.save(out)
    return record


def evaluate(
    candidate: str,
    against: Sequence[str],
    *,
    games_per_country: int,
    until_year: int,
    seed: int = 0,
    temperature: float | None = None,
    remotes: ChatPlayers | None = None,
    add_bar: AddBar | None = None,
) -> list[dict[str, object]]:
    """Play one candidate against six of each bot and return one row of ``summary.json``'s evaluations for each.

    Players are bot names, checkpoint or run folders, or remote:NAME of ``remotes``, which are closed at the end. The
    same seed gives each candidate the same games. A candidate that is a checkpoint samples at ``temperature``; None:
    evaluation.temperature of its run, which checkpoints among the opponents always use.

    Raises RunError, CheckpointError or EndpointError if a player cannot be opened or does not answer.
    """
    remotes = remotes or ChatPlayers({})
    player = open_policy(candidate, remotes, temperature=temperature, evaluation=True)
    opponents = {name: open_policy(name, remotes, evaluation=True) for name in against}

    async def play_all(games: list[EvaluationGame]) -> list[EvaluationResult]:
        running = asyncio.Semaphore(CONCURRENT_GAMES)
        advance = None if add_bar is None else add_bar(f"against six {games[0].against}", len(games))

        async def play_one(game: EvaluationGame) -> EvaluationResult:
            async with running:
                result = await play_evaluation_game(game, player, opponents[game.against])
            if advance is not None:
                advance(1)
            return result

        return await asyncio.gather(*map(play_one, games))

    async def measure() -> list[dict[str, object]]:
        rows = []
        try:
            for name in against:
                results = await play_all(evaluation_games(name, games_per_country, until_year, seed))
                rows.append(summarize(results, checkpoint=candidate, against=name, until_year=until_year))
        finally:
            await remotes.close()
        return rows

    return asyncio.run(measure())
