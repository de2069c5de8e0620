"""The run's population and league: opened at the start, changed after updates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cluster.configs.schema import Config
from cluster.runs.folder import RunFolder, snapshot_files
from opponents.league.league import League
from opponents.players.chat_players import add_members
from opponents.population.population import Population
from opponents.population.redis_mirror import PopulationMirror
from opponents.settings import OpponentsSettings


def open_population(
    opponents: OpponentsSettings, folder: RunFolder, version: int, mirror: PopulationMirror
) -> Population:
    """Open the population: the config's members in a new run; on resume, without snapshots of undone updates."""
    started = folder.population.exists()
    mirror.clear()
    population = Population(folder.population, on_saved=mirror.publish)
    with population.transaction():
        if not started:
            add_members(population, opponents)
        population.remove_snapshots_after(version)
        population.advance_to(version)
    return population


def open_league(config: Config, folder: RunFolder, population: Population, version: int, resume: bool) -> League:
    """Open the league, which draws line-ups; on resume, with the results that earlier processes recorded."""
    return League(
        folder.path,
        population,
        config.opponents,
        num_generations=config.rollout.num_generations,
        until_year=config.game.until_year,
        seed=config.run.seed,
        version=version,
        resume=resume,
    )


def change_population(
    config: Config,
    folder: RunFolder,
    league: League,
    version: int,
    write_snapshot: Callable[[Path], None],
    log: Callable[[str], None],
) -> None:
    """After update ``version``: read what others changed; apply the joins and retirements that ``league`` decides.

    ``write_snapshot`` writes the learner's weights to a file; ``log`` shows each change to the user.
    """
    weights = folder.path / "population" / f"v{version}.safetensors"

    def add(population: Population) -> None:
        for country, file in snapshot_files(weights, specialists=config.policy.specialists).items():
            population.add_snapshot(file, version=version, config_digest=config.digest, country=country)

    snapshot = league.snapshot_due(version)
    if snapshot is not None:
        write_snapshot(weights)
    for notice in league.change_members(version, snapshot, add):
        log(notice)
