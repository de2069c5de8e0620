"""``entente population``: look at the members a run plays against, and change them, also while it is training."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.api.arguments import MOST_GAMES
from cluster.cli.options import Json, Run, comma_separated, seed_option, write_json
from cluster.errors import INTERRUPTED

if TYPE_CHECKING:
    from opponents.population.importer import Source
    from opponents.population.member import Member
    from opponents.population.population import Population
    from services.environments.environment import World

population_app = typer.Typer(
    help="Look at the members that a run plays against and change them, also while it is training.",
    no_args_is_help=True,
)

MemberId = Annotated[str, typer.Argument(metavar="ID", help="Of a member, e.g. policy/v20 or bot/dumbbot.")]
Name = Annotated[str | None, typer.Option("--id", metavar="NAME", help="Call it policy/NAME.", show_default="proposed")]
Country = Annotated[
    str | None,
    typer.Option(help="A specialist: it plays this role alone; where the checkpoint has one for each, this one's."),
]
Weight = Annotated[float, typer.Option(min=0, max=1e6, help="How often it is drawn, relative to the others.")]
Pin = Annotated[bool, typer.Option("--pin", help="Keep it drawable however many newer snapshots there are.")]


@population_app.command("list", epilog="Example: `entente population list runs/demo --json members.json`")
def list_members(run: Run, json_out: Json = None) -> None:
    """All members of a run's population, also retired ones: rating, games, and the learner's score against each."""
    from rich.console import Console

    from cluster.cli.population.population_tables import members_as_json, read_standings, show_members

    population = _open(run)
    standings = read_standings(run, [member.id for member in population.members], _world(run))
    show_members(population, standings, Console())
    write_json(json_out, members_as_json(population, standings))


@population_app.command(epilog="Example: `entente population show runs/demo policy/v20`")
def show(run: Run, member_id: MemberId, json_out: Json = None) -> None:
    """The full record of one member; its weights (or the version of its bot) are checked."""
    from rich.console import Console

    from cluster.cli.population.population_tables import facts, show_member

    population = _open(run)
    member = population[member_id]
    record = facts(population, member)
    show_member(record, Console())
    write_json(json_out, record)
    if member.kind != "remote":
        population.verify(member)
        typer.echo("verified: unchanged since it joined")


@population_app.command(
    epilog="Examples: `entente population add runs/older --to runs/demo` or `entente population add runs/older "
    "--member policy/v40 --to runs/demo --id older-40 --pin` or `entente population add dumbbot --to runs/demo`"
)
def add(
    what: Annotated[
        str,
        typer.Argument(
            help="A run (its newest checkpoint), a checkpoint, a model's folder, champion, a bot, or remote:NAME."
        ),
    ],
    to: Annotated[Path, typer.Option("--to", metavar="RUN", help="Folder of the run that it joins.")] = Path(),
    member: Annotated[
        str | None, typer.Option("--member", metavar="ID", help="Take this member of the other run's population.")
    ] = None,
    name: Name = None,
    country: Country = None,
    weight: Weight = 1.0,
    pin: Pin = False,
    as_it_is: Annotated[
        bool, typer.Option("--as-it-is", help="Play it from its folder, with its own prompt and engine: any shape.")
    ] = False,
) -> None:
    """Let a policy from elsewhere, a bot or a remote player join a run: its weights and their origin are stored.

    It must fit the run's own policy (architecture, sizes, tokenizer), or play as it is, as the champion and
    lookahead:RUN always do. Line-ups may draw it from the next update on.
    """
    from cluster.errors import RunError
    from opponents.player_names import PlayerName, player_name
    from opponents.settings import REMOTE_PREFIX

    population = _open(to)
    world = _world(to)
    country = _role(country, world)
    if what in world.bots or what.startswith(REMOTE_PREFIX):
        if member is not None or name is not None:
            raise RunError(f"--member and --id are for policies; {what} has its own name")
        joined = _add_fixed(population, to, what, weight, country, pin)
    elif as_it_is or player_name(what) != PlayerName(what, looks_ahead=False):
        if member is not None:
            raise RunError("--member takes weights out of a population, so it cannot play as it is; leave one out")
        joined = _add_as_it_is(population, world, what, name, weight, country, pin)
    else:
        from opponents.population.importer import find_source, import_policy, member_id_of

        source = find_source(Path(what), member)
        chosen, country = member_id_of(name or source.name, world.roles), country or source.country
        data = _compatible_weights(population, source, to, chosen, country)
        joined = import_policy(population, source, data, member_id=chosen, weight=weight, country=country, pinned=pin)
    _print_joined(joined, to)


@population_app.command(epilog="Example: `entente population promote runs/demo --checkpoint 40 --id strong`")
def promote(
    run: Run,
    checkpoint: Annotated[
        int | None, typer.Option(min=0, max=10**9, help="Its version.", show_default="the newest")
    ] = None,
    name: Name = None,
    country: Country = None,
    weight: Weight = 1.0,
    pin: Pin = False,
) -> None:
    """Make a checkpoint of the run a member of its own population, now."""
    import dataclasses

    from cluster.errors import RunError
    from grpo_core.checkpoints.folders import checkpoint_versions
    from opponents.population.importer import checkpoint_source, import_policy, member_id_of

    population = _open(run)
    world = _world(run)
    versions = checkpoint_versions(run)
    version = checkpoint if checkpoint is not None else max(versions, default=None)
    if version not in versions:
        there = ", ".join(map(str, versions)) or "none"
        wanted = "checkpoint" if version is None else f"checkpoint {version}"
        raise RunError(f"{run} has no {wanted}; there are: {there}")
    chosen = member_id_of(name or f"checkpoint-{version}", world.roles)
    source = dataclasses.replace(
        checkpoint_source(run / "checkpoints" / str(version)),
        source=f"checkpoints/{version}",
        parent=population.newest_snapshot_before(version),
    )
    country = _role(country, world)
    data = _compatible_weights(population, source, run, chosen, country)
    joined = import_policy(population, source, data, member_id=chosen, weight=weight, country=country, pinned=pin)
    _print_joined(joined, run)


@population_app.command(epilog="Example: `entente population retire runs/demo policy/v2` or `... --undo`")
def retire(
    run: Run,
    member_id: MemberId,
    undo: Annotated[bool, typer.Option("--undo", help="Let it be drawn again, from the next update on.")] = False,
) -> None:
    """Stop drawing a member; its entry and its weights stay. Blocks that have begun are played to their end."""
    from cluster.errors import RunError

    population = _open(run)
    with population.transaction():
        if undo and not population[member_id].retired:
            raise RunError(f"{member_id} is not retired")
        if undo:
            population.reactivate(member_id)
        else:
            population.retire(member_id)
            if not any(m.weight > 0 and m.country is None for m in population.active()):
                raise RunError(f"{member_id} is the last member that can play any role; add another one first")
    since = f", from update {population[member_id].created_at_update} on" if undo else ""
    typer.echo(f"{member_id} {'may be drawn again' if undo else 'is retired'}{since}")


@population_app.command(epilog="Example: `entente population pin runs/demo policy/v20` or `... --undo`")
def pin(
    run: Run,
    member_id: MemberId,
    undo: Annotated[bool, typer.Option("--undo", help="Let newer snapshots take its place again.")] = False,
) -> None:
    """Keep a snapshot drawable however many newer ones there are; only a person retires it."""
    population = _open(run)
    with population.transaction():
        population.pin(member_id, pinned=not undo)
    typer.echo(f"{member_id} is {'no longer ' if undo else ''}pinned")


@population_app.command(epilog="Example: `entente population rate runs/demo --games 5 --against random,dumbbot,greedy`")
def rate(
    run: Run,
    games: Annotated[int, typer.Option(min=1, max=MOST_GAMES, help="Seats of every player in each role.")] = 10,
    against: Annotated[
        str | None,
        typer.Option(
            help="Bots and remote:NAMEs, comma-separated, that play too; '' for none.",
            show_default="the bots of its evaluations",
        ),
    ] = None,
    until: Annotated[
        int | None, typer.Option(min=1901, max=1999, help="Last year of a match.", show_default="the run's")
    ] = None,
    seed: Annotated[int, seed_option("Of the seats and the matches.")] = 0,
    json_out: Json = None,
) -> None:
    """Play matches between the members and the newest checkpoint, and rate all players, overall and in each role.

    The games add to the run's ratings.json; Ctrl-C keeps the finished ones. Not while the run is training.
    """
    from rich.console import Console

    from cluster.evaluation.ratings.players import outsider_id
    from cluster.runs.folder import RunFolder

    config = RunFolder(run).stored_config()
    world, evaluation = config.world, config.evaluation
    if against is None:
        names = [name for name in (*evaluation.against, *evaluation.final_against) if name in world.bots]
    else:
        names = comma_separated(against)
    for name in names:
        outsider_id(name, world.bots)
    # Slow to import; wrong names need none of it.
    from cluster.cli.population.population_tables import ratings_as_json, show_ratings
    from cluster.evaluation.ratings.matches import rate as play_and_rate
    from cluster.runs.progress_bars import progress_bars
    from opponents.ratings.storage import saved_ratings

    try:
        with progress_bars() as add_bar:
            book = play_and_rate(run, games_per_role=games, against=names, until_year=until, seed=seed, add_bar=add_bar)
    except KeyboardInterrupt:
        show_ratings(saved_ratings(run, world.roles, world.rating_scale), Console())
        typer.echo("stopped; what was played is kept", err=True)
        sys.exit(INTERRUPTED)
    show_ratings(book, Console())
    write_json(json_out, ratings_as_json(book, world.role_name))


def _open(run: Path) -> Population:
    from cluster.runs.folder import RunFolder
    from opponents.population.member import PopulationError
    from opponents.population.population import Population

    folder = RunFolder(run)
    if not folder.population.exists():
        raise PopulationError(f"{run} holds no run with a population (no population.json); name the run's folder")
    folder.check_format()
    return Population.load(folder.population)


def _world(run: Path) -> World:
    from cluster.runs.folder import RunFolder

    world: World = RunFolder(run).stored_config().world
    return world


def _role(name: str | None, world: World) -> str | None:
    """A role by its name, in small or capital letters; PopulationError if the world has none of that name."""
    from opponents.population.member import check_role

    if name is None or name in world.roles:
        return name
    found = next((role for role in world.roles if role.casefold() == name.casefold()), name)
    check_role(found, world.roles, role_name=world.role_name)
    return found


def _compatible_weights(
    population: Population, source: Source, run: Path, member_id: str, country: str | None
) -> bytes:
    """Weights that the run's engines can load, after seconds in which a bar shows that it goes on."""
    from cluster.runs.progress_bars import progress_bars
    from opponents.population.importer import base_of, check_id_is_free

    check_id_is_free(population, member_id)
    base_of(run)
    _check_same_prompts(source, run)
    with progress_bars() as add_bar:
        advance = add_bar(f"checking that {member_id} fits the run", 4)  # 3 are of compatible_weights
        advance(1)
        from opponents.population.compatibility import compatible_weights  # torch takes seconds to import

        return compatible_weights(source, run, country, advance)


def _check_same_prompts(source: Source, run: Path) -> None:
    """Raise PopulationError if a policy of another run learned to read other prompts than those of ``run``."""
    from cluster.runs.folder import has_sampling, sampling_of
    from opponents.population.member import PopulationError

    theirs, ours = sampling_of(source.model).policy.prompt, sampling_of(run).policy.prompt
    if has_sampling(source.model) and theirs != ours:
        raise PopulationError(
            f"{source.model} was trained with policy.prompt = {theirs}, and {run} has {ours}: its members read the "
            "same prompts as the learner"
        )


def _add_fixed(
    population: Population, run: Path, what: str, weight: float, country: str | None, pinned: bool
) -> Member:
    """A bot, or a remote player that the run's config describes."""
    from cluster.errors import RunError
    from cluster.runs.folder import RunFolder
    from opponents.settings import REMOTE_PREFIX, unknown_chat_player

    name = what.removeprefix(REMOTE_PREFIX)
    remotes = RunFolder(run).stored_config().opponents.remotes
    if name != what and name not in remotes:
        raise RunError(unknown_chat_player(name, remotes))
    with population.transaction():
        since = population.join_update
        if name != what:
            identity = remotes[name].identity
            member = population.add_chat_player(name, identity, weight=weight, created_at_update=since, country=country)
        else:
            member = population.add_bot(what, weight=weight, created_at_update=since, country=country)
        return population.pin(member.id) if pinned else member


def _add_as_it_is(
    population: Population,
    world: World,
    what: str,
    name: str | None,
    weight: float,
    country: str | None,
    pinned: bool,
) -> Member:
    """A policy that stays in its folder."""
    from cluster.evaluation.players.opening import check_player, check_world
    from cluster.runs.folder import sampling_of
    from opponents.champion.shipped import CHAMPION, player_folder
    from opponents.player_names import player_name, with_saved
    from opponents.players.chat_players import ChatPlayers
    from opponents.population.importer import find_source
    from opponents.population.saved_players import saved_player

    check_player(what, ChatPlayers({}), type(world))
    saved = player_name(what).saved
    check_world(what, sampling_of(player_folder(saved)), world)
    own = CHAMPION if saved == CHAMPION else find_source(Path(saved)).name
    proposed = with_saved(what, own).replace(":", "-")
    chosen = (name or proposed).removeprefix("player/")
    player = saved_player(chosen, what)
    with population.transaction():
        since = population.join_update
        member = population.add_saved_player(chosen, player, weight=weight, created_at_update=since, country=country)
        return population.pin(member.id) if pinned else member


def _print_joined(member: Member, run: Path) -> None:
    typer.echo(f"{member.id} joined {run}; line-ups may draw it from update {member.created_at_update} on")
