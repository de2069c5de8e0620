"""Rating matches between the members of a run's population, without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cluster.errors import RunError
from cluster.evaluation.rating_games import RatingGame, play_rating_game, rating_games
from cluster.evaluation.rating_players import RatingPlayers, outsider_id
from cluster.runs.folder import RunFolder
from cluster.runs.progress_bars import AddBar
from grpo_core.checkpoints.folders import checkpoint_versions
from opponents.players.policy import Policy
from opponents.population.population import Population
from opponents.ratings.book import RatingBook
from opponents.ratings.game_score import GameScore
from opponents.ratings.storage import RATINGS, save_ratings, saved_ratings
from opponents.seeds import derive_seed
from services.inference.engine import LEARNER

CONCURRENT_GAMES = 64


def rate(
    run_dir: Path,
    *,
    games_per_country: int,
    against: Sequence[str],
    until_year: int | None,
    seed: int,
    add_bar: AddBar,
) -> RatingBook:
    """Play matches, add their results to the run's ``ratings.json`` and return its ratings.

    The players are the active bots and policies of the population, the newest checkpoint as ``learner``, and
    ``against``. Each plays every country equally often; a specialist plays only its own. The population's remote
    players are left out, because their answers cost money. After an interruption the rated matches are kept.

    ``against`` names bots and ``remote:NAME`` of the run's configuration. ``until_year`` is by default that of the
    run's training games. The same seed plays new games once some are rated.

    Raises RunError if there is no run, it is being trained, there are fewer than two players or one in ``against`` is
    unknown; PopulationError, CheckpointError, EngineError or EndpointError if a player cannot be opened or answer.
    """
    folder = RunFolder(run_dir)
    config = folder.stored_config()
    with folder.held():
        population = Population.load(folder.population)
        book = saved_ratings(run_dir)
        countries = _countries_of_players(run_dir, population, against)
        if len(countries) < 2:
            raise RunError(
                f"rating needs at least two players: the population of {run_dir} and --against name {len(countries)}"
            )
        games = rating_games(countries, games_per_country, derive_seed(seed, "rating", sum(book.games.values())))
        advance = add_bar("rating matches", len(games))

        def rated(score: GameScore) -> None:
            book.record(score)
            advance(1)

        async def play() -> None:
            players = RatingPlayers(config, run_dir, population)
            try:
                await players.open(tuple(countries))
                # Bots answer at once: concurrent games among bots gain nothing, and would be slow to stop.
                at_once = CONCURRENT_GAMES if players.suspends else 1
                await play_in_order(games, players.by_id, until_year or config.game.until_year, at_once, rated)
            finally:
                await players.close()

        try:
            asyncio.run(play())
        finally:
            if any(player in book.games for player in countries):
                save_ratings(book, run_dir / RATINGS)
    return book


async def play_in_order(
    games: Sequence[RatingGame],
    players: Mapping[str, Policy],
    until_year: int,
    at_once: int,
    rated: Callable[[GameScore], None],
) -> None:
    """Play matches, ``at_once`` of them concurrently, and call ``rated`` in the order of ``games``.

    The order makes an interrupted rating keep the first matches, not those that ended first.
    """
    running = asyncio.Semaphore(at_once)
    done: dict[int, GameScore] = {}
    next_rated = 0

    async def play_one(number: int, game: RatingGame) -> None:
        nonlocal next_rated
        async with running:
            done[number] = await play_rating_game(game, players, until_year)
        while next_rated in done:
            rated(done.pop(next_rated))
            next_rated += 1

    await asyncio.gather(*(play_one(number, game) for number, game in enumerate(games)))


def _countries_of_players(run_dir: Path, population: Population, against: Sequence[str]) -> dict[str, str | None]:
    """List all players by id, with the only country of a specialist, else None."""
    countries: dict[str, str | None] = {outsider_id(name): None for name in against}
    countries |= {member.id: member.country for member in population.active() if member.kind != "remote"}
    if checkpoint_versions(run_dir):
        countries[LEARNER] = None
    return countries
