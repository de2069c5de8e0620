"""Rating matches between the members of a run's population, without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.evaluation.ratings.games import play_in_order, rating_games
from cluster.evaluation.ratings.players import RatingPlayers, outsider_id
from cluster.evaluation.tables.playing import games_at_once
from cluster.runs.folder import RunFolder
from cluster.runs.progress_bars import AddBar
from grpo_core.checkpoints.folders import checkpoint_versions
from grpo_core.seeds import derive_seed
from opponents.population.member import check_role
from opponents.population.population import Population
from opponents.ratings.book import RatingBook
from opponents.ratings.game_score import GameScore
from opponents.ratings.storage import RATINGS, save_ratings, saved_ratings
from services.environments.environment import World
from services.inference.engine import LEARNER


def rate(
    run_dir: Path,
    *,
    games_per_role: int,
    against: Sequence[str],
    until_year: int | None,
    seed: int,
    add_bar: AddBar,
) -> RatingBook:
    """Play matches, add their results to the run's ``ratings.json`` and return its ratings.

    The players are the active bots and policies of the population, the newest checkpoint as ``learner``, and
    ``against``. Each plays every role equally often; a specialist plays only its own. The population's remote
    players are left out, because their answers cost money. After an interruption the rated matches are kept.

    ``against`` names bots and ``remote:NAME`` of the run's configuration. ``until_year`` is by default that of the
    run's training games. The same seed plays new games once some are rated.

    Raises RunError if there is no run, it is being trained, its games have no opponents or no such last year, there are
    fewer than two players or one in ``against`` is unknown; PopulationError, CheckpointError, EngineError or
    EndpointError if a player cannot be opened or answer.
    """
    folder = RunFolder(run_dir)
    config = folder.stored_config()
    world = _rated_world(config, until_year)
    with folder.held():
        population = Population.load(folder.population)
        book = saved_ratings(run_dir, world.roles, world.rating_scale)
        only = _roles_of_players(run_dir, population, against, world)
        if len(only) < 2:
            raise RunError(
                f"rating needs at least two players: the population of {run_dir} and --against name {len(only)}"
            )
        begun = derive_seed(seed, "rating", sum(book.games.values()))
        games = rating_games(only, games_per_role, begun, world.roles)
        advance = add_bar("rating matches", len(games))

        def rated(score: GameScore) -> None:
            book.record(score)
            advance(1)

        async def play() -> None:
            players = RatingPlayers(config, run_dir, population)
            try:
                await players.open(tuple(only))
                at_once = games_at_once(players.by_id.values())
                await play_in_order(games, players.by_id, world, at_once, rated)
            finally:
                await players.close()

        try:
            asyncio.run(play())
        finally:
            if any(player in book.games for player in only):
                save_ratings(book, run_dir / RATINGS)
    return book


def _rated_world(config: Config, until_year: int | None) -> World:
    """The run's world as matches play it, to the end of ``until_year`` if that is given; RunError if it cannot be."""
    world: World = config.world
    if not world.has_opponents:
        raise RunError(f"the games of {world.name} have no opponents, so there are no ratings")
    if until_year is None:
        return world.as_rated()
    game = config.game
    if "until_year" not in type(game).model_fields:
        raise RunError(f"--until: the games of {world.name} have no last year")
    return type(world)(game.model_copy(update={"until_year": until_year})).as_rated()


def _roles_of_players(
    run_dir: Path, population: Population, against: Sequence[str], world: World
) -> dict[str, str | None]:
    """List all players by id, with the only role of a specialist, else None."""
    only: dict[str, str | None] = {outsider_id(name, world.bots): None for name in against}
    for member in population.active():
        if member.country is not None:
            check_role(member.country, world.roles, f"{member.id}: ", role_name=world.role_name)
        if member.kind != "remote":
            only[member.id] = member.country
    if checkpoint_versions(run_dir):
        only[LEARNER] = None
    return only
