"""Rating matches between the members of a run's population, without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cluster.configs.loader import load_config
from cluster.errors import RunError
from cluster.evaluation.rating_games import RatingGame, play_rating_game, rating_games
from cluster.evaluation.rating_players import LEARNER, RatingPlayers, outsider_id
from cluster.runs.folder import RunFolder
from cluster.runs.progress_bars import AddBar
from grpo_core.checkpoints.folders import checkpoint_versions
from opponents.players.policy import Policy
from opponents.population.population import Population
from opponents.ratings.book import RatingBook
from opponents.ratings.game_score import GameScore
from opponents.ratings.storage import load_ratings, save_ratings
from opponents.seeding import derive_seed

CONCURRENT_GAMES = 64


def ratings_path(run_dir: Path) -> Path:
    """Where a run's ratings are."""
    return run_dir / "ratings.json"


def saved_ratings(run_dir: Path) -> RatingBook:
    """A run's ratings; those of nobody before the first game.

    Raises:
        RatingsError: the file is damaged.
    """
    path = ratings_path(run_dir)
    return load_ratings(path) if path.exists() else RatingBook()


def rate(
    run_dir: Path,
    *,
    games_per_country: int,
    against: Sequence[str],
    until_year: int | None,
    seed: int,
    add_bar: AddBar,
) -> RatingBook:
    """Play matches and add what they say to the run's ``ratings.json``; returns its ratings.

    At the tables sit the active bots and policies of the population, the newest checkpoint as ``learner``, and
    ``against``; everybody has every country equally often (a specialist its own). Other remote players stay away:
    their answers cost money. If the matches are interrupted, those that were rated are kept.

    Args:
        run_dir: the run's folder.
        games_per_country: seats of everybody as each country.
        against: bots and ``remote:NAME`` players of the run's configuration who sit there too.
        until_year: last year played; None: that of the run's training games.
        seed: the same seed plays new games once some are rated.
        add_bar: shows the progress.

    Raises:
        RunError: there is no run, it is being trained, there is nobody to rate, or an unknown name in ``against``.
        PopulationError, CheckpointError, EngineError, EndpointError: somebody cannot be seated, or does not answer.
    """
    folder = RunFolder(run_dir)
    if not folder.config.exists():
        raise RunError(f"no run in {run_dir} (no config.toml): name the folder of a run")
    with folder.held():
        config, population = load_config(folder.config), Population.load(folder.population)
        book = saved_ratings(run_dir)
        countries = _who_plays_what(run_dir, population, against)
        if len(countries) < 2:
            raise RunError(f"nobody to compare in {run_dir}: its population and --against name {len(countries)} player")
        games = rating_games(countries, games_per_country, derive_seed(seed, "rating", sum(book.games.values())))
        advance = add_bar("rating matches", len(games))

        def rated(score: GameScore) -> None:
            book.record(score)
            advance(1)

        async def play() -> None:
            players = RatingPlayers(config, run_dir, population)
            try:
                await players.open(tuple(countries))
                # Bots answer at once: games among them gain nothing from one another, and would be slow to stop.
                at_once = CONCURRENT_GAMES if players.suspends else 1
                await play_in_order(games, players.by_id, until_year or config.game.until_year, at_once, rated)
            finally:
                await players.close()

        try:
            asyncio.run(play())
        finally:
            if any(player in book.games for player in countries):
                save_ratings(book, ratings_path(run_dir))
    return book


async def play_in_order(
    games: Sequence[RatingGame],
    players: Mapping[str, Policy],
    until_year: int,
    at_once: int,
    rated: Callable[[GameScore], None],
) -> None:
    """Play matches, some at once; ``rated`` hears of them in their order, whichever ends first.

    So an interruption keeps the first ones, and not those that were over soon.
    """
    tables = asyncio.Semaphore(at_once)
    done: dict[int, GameScore] = {}
    told = 0

    async def play_one(number: int, game: RatingGame) -> None:
        nonlocal told
        async with tables:
            done[number] = await play_rating_game(game, players, until_year)
        while told in done:
            rated(done.pop(told))
            told += 1

    await asyncio.gather(*(play_one(number, game) for number, game in enumerate(games)))


def _who_plays_what(run_dir: Path, population: Population, against: Sequence[str]) -> dict[str, str | None]:
    """Who sits at the tables, and the only country that a specialist plays."""
    countries: dict[str, str | None] = {outsider_id(name): None for name in against}
    countries |= {member.id: member.country for member in population.active() if member.kind != "remote"}
    if checkpoint_versions(run_dir):
        countries[LEARNER] = None
    return countries
