"""The population of a run as it begins: the members that the configuration names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from cluster.configs.schema import Config
from cluster.runs.folder import RunFolder, sampling_of
from grpo_core.errors import one_line
from grpo_core.files import read_json
from opponents.champion.shipped import CHAMPION, shipped_champion
from opponents.players.chat_players import add_members
from opponents.population.importer import champion_source, incoming_policy
from opponents.population.member import Member, PopulationError
from opponents.population.population import Population
from opponents.population.redis_mirror import PopulationMirror
from opponents.settings import member_id

# Sizes of the small policy, and what the configuration of a model calls them.
_SIZES = {
    "architecture": "model_type",
    "hidden_size": "hidden_size",
    "layers": "num_hidden_layers",
    "head_dim": "head_dim",
    "intermediate_size": "intermediate_size",
}
_ADVICE = f'leave it out, or start from it with policy.path = "{CHAMPION}"'


def open_population(config: Config, folder: RunFolder, version: int, mirror: PopulationMirror) -> Population:
    """Open the population: the config's members in a new run; on resume, without snapshots of undone updates.

    Raises PopulationError if the champion is to be a member and does not fit the run's policy.
    """
    opponents, world = config.opponents, config.world
    is_new = world.has_opponents and not folder.population.exists()
    mirror.clear()
    population = Population(folder.population, on_saved=mirror.publish)
    with ExitStack() as stack:
        join = None
        if is_new and _is_member(config):
            join = stack.enter_context(_champion(config, folder, population))
        stack.enter_context(population.transaction())
        if is_new:
            add_members(population, opponents)
        if join is not None:
            join(0)
        population.remove_snapshots_after(version)
        population.advance_to(version)
    return population


def check_champion(config: Config) -> None:
    """Check before anything starts that the champion can be a member of a new run, if the configuration names it.

    Sizes are compared for the small policy; the model of ``policy.path`` is compared once the learner has loaded it.
    Raises PopulationError, or ChampionError if its files are not whole.
    """
    if not _is_member(config):
        return
    folder, policy = shipped_champion().folder, config.policy
    theirs = sampling_of(folder).policy.prompt
    if theirs != policy.prompt:
        raise PopulationError(
            f"opponents.members: {CHAMPION} reads policy.prompt = {theirs}, and this run has {policy.prompt}; "
            "leave it out"
        )
    if policy.path is not None:
        return
    shipped, ours = read_json(folder / "config.json"), policy.model_dump()
    for key, name in _SIZES.items():
        if shipped.get(name) != ours[key]:
            raise PopulationError(
                f"opponents.members: {CHAMPION} has policy.{key} = {shipped.get(name)}, and this run has {ours[key]}; "
                f"{_ADVICE}"
            )


def _is_member(config: Config) -> bool:
    return config.world.has_opponents and CHAMPION in config.opponents.members and CHAMPION not in config.world.bots


@contextmanager
def _champion(config: Config, folder: RunFolder, population: Population) -> Iterator[Callable[[int], Member]]:
    """Make the champion's weights ready to join; it is pinned, because newer snapshots must not displace it."""
    source, weight = champion_source(), config.opponents.members[CHAMPION]
    from opponents.population.compatibility import compatible_weights  # torch takes seconds to import

    try:
        data = compatible_weights(source, folder.path)
    except PopulationError as error:
        reason = one_line(error, 250)
        message = f"opponents.members: {CHAMPION} does not fit this run's policy ({reason}); {_ADVICE}"
        raise PopulationError(message) from error
    with incoming_policy(population, source, data, member_id=member_id(CHAMPION), weight=weight, pinned=True) as join:
        yield join
