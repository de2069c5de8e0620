"""Evaluation without a cluster: one candidate against six of each bot, all seven countries alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from cluster.games import EvaluationGame, EvaluationResult, evaluation_games, play_evaluation_game, summarize
from cluster.seating import open_policy

CONCURRENT_GAMES = 64


def evaluate(
    candidate: str,
    against: Sequence[str],
    *,
    games_per_country: int,
    until_year: int,
    seed: int = 0,
    temperature: float = 1.0,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[dict[str, object]]:
    """One row of ``summary.json``'s evaluations for each opponent.

    Args:
        candidate: bot name, checkpoint or run folder.
        against: bot names; each fills the six other seats in turn.
        games_per_country: games as each of the seven powers.
        until_year: last year played.
        seed: the same seed gives every candidate the same games.
        temperature: sampling temperature of a language model; 0 is greedy.
        progress: hears opponent, games done, games in all.

    Raises:
        RunError, CheckpointError: the candidate or an opponent cannot be seated.
    """
    player = open_policy(candidate, temperature=temperature)
    opponents = {name: open_policy(name) for name in against}

    async def play_all(games: list[EvaluationGame]) -> list[EvaluationResult]:
        seats = asyncio.Semaphore(CONCURRENT_GAMES)
        done = 0

        async def play_one(game: EvaluationGame) -> EvaluationResult:
            nonlocal done
            async with seats:
                result = await play_evaluation_game(game, player, opponents[game.against])
            done += 1
            if progress is not None:
                progress(game.against, done, len(games))
            return result

        return list(await asyncio.gather(*map(play_one, games)))

    rows = []
    for name in against:
        games = evaluation_games(candidate, name, games_per_country, until_year, seed)
        rows.append(summarize(asyncio.run(play_all(games)), checkpoint=candidate, against=name, until_year=until_year))
    return rows
