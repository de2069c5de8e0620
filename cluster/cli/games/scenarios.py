"""``entente scenarios``: lists, shows and plays scenarios, and makes them of saved games."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.cli.options import (
    STDOUT,
    ChatPlayersConfig,
    JsonOrStdout,
    check_output,
    comma_separated,
    seed_option,
    write_json,
)

if TYPE_CHECKING:
    from services.environments.diplomacy.scenarios.scenario import Scenario

commands = typer.Typer(help="Test players in written situations.", no_args_is_help=True)

Family = Annotated[str, typer.Option(help="opening, alliance, crisis or endgame; comma-separated.", show_default="all")]
Country = Annotated[str, typer.Option(help="Countries, comma-separated.", show_default="all seven")]
OwnFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--file", metavar="FILE|FOLDER", help="Scenarios of your own instead of the shipped ones; repeatable."
    ),
]


@commands.command(name="list", epilog="Examples: `entente scenarios list --family crisis`; `... --json -`")
def list_scenarios(
    family: Family = "", country: Country = "", file: OwnFiles = None, json_out: JsonOrStdout = None
) -> None:
    """List scenarios with their family, country and phases."""
    found = _chosen(file, family, country)
    rows = [
        {"id": each.id, "family": each.family, "country": each.country, "phase": each.phase, "horizon": each.horizon}
        | {"title": each.title}
        for each in found
    ]
    if json_out != STDOUT:
        width = max(len(each.id) for each in found)
        for each in found:
            span = f"{each.phase}-{each.horizon}"
            typer.echo(f"{each.id:<{width}}  {each.family:<8}  {each.country:<7}  {span:<13}  {each.title}")
        typer.echo(f"{len(found)} scenarios; `entente scenarios show ID` has the position and the task")
    write_json(json_out, rows)


@commands.command(epilog="Example: `entente scenarios show italy-opening-lepanto --html scenario.html`")
def show(
    scenario: Annotated[str, typer.Argument(metavar="ID|FILE", help="An id of `list`, or a file.")],
    html: Annotated[Path | None, typer.Option(callback=check_output, help="Also write a page with the map.")] = None,
) -> None:
    """Print a scenario: the board, the task, how it is scored, and who plays the other powers."""
    from services.environments.diplomacy.scenarios.files import named
    from services.environments.diplomacy.scenarios.scenario import ScenarioError

    found = named(scenario)
    if len(found) != 1:
        raise ScenarioError(
            f"{scenario} are {len(found)} scenarios; name one: {', '.join(each.id for each in found[:3])}"
        )
    typer.echo("\n".join(_shown(found[0])))
    if html is not None:
        import json

        from services.environments.diplomacy.scenarios.scenario_game import ScenarioGame
        from services.reports.game_viewer.game_viewer import viewer_page
        from services.reports.page import write_page

        document = json.loads(ScenarioGame.begin(found[0], found[0].id).saved())
        document["phases"][-1]["state"]["note"] = f"{found[0].title}: {found[0].task}".removesuffix(".")
        write_page(html, viewer_page(document)[0])
        typer.echo(f"the map: {html}")


@commands.command(
    epilog="Examples: `entente scenarios run hold random dumbbot --repeats 5`; "
    "`entente scenarios run runs/demo dumbbot --family opening,crisis --json scores.json`"
)
def run(
    players: Annotated[
        list[str],
        typer.Argument(
            metavar="PLAYER...",
            help="Bots, champion, checkpoint or run folders, or remote:NAMEs; loyal:BOT is a bot that keeps to its "
            "ally in the alliances.",
        ),
    ],
    family: Family = "",
    country: Country = "",
    scenario: Annotated[str, typer.Option(help="Ids of scenarios, comma-separated.", show_default="all")] = "",
    file: OwnFiles = None,
    repeats: Annotated[int, typer.Option(min=1, max=10_000, help="Games of each player in each scenario.")] = 5,
    seed: Annotated[int, seed_option("The same seed plays the same games.")] = 0,
    temperature: Annotated[
        float | None,
        typer.Option(
            min=0, max=100, help="Of checkpoints' sampling; 0 is greedy.", show_default="evaluation.temperature"
        ),
    ] = None,
    json_out: JsonOrStdout = None,
    csv: Annotated[
        Path | None, typer.Option(callback=check_output, help="Also write one line for each game to this file.")
    ] = None,
    config: ChatPlayersConfig = None,
) -> None:
    """Play scenarios with one or several players and print their scores from 0 to 1, with 95 % intervals.

    All players get the same seeds. Differences are to the first player, game by game. Intervals take the repeats of a
    scenario together, so that they say how other scenarios of the kind would come out.
    """
    from cluster.evaluation.players.opening import chat_players, check_player, newest
    from services.environments.diplomacy.scenarios.scenario import LOYAL

    remotes = chat_players(config)
    for name in players:
        check_player(name.removeprefix(LOYAL), remotes)
    found = _chosen(file, family, country, scenario)
    from cluster.cli.games.scenario_tables import print_scores, write_csv
    from cluster.evaluation.scenario_runs import results_document, run_scenarios
    from cluster.runs.progress_bars import progress_bars

    chosen = list(dict.fromkeys(map(newest, players)))
    try:
        with progress_bars() as add_bar:
            results = run_scenarios(chosen, found, repeats, seed, remotes, temperature=temperature, add_bar=add_bar)
    finally:
        for line in remotes.report():
            typer.echo(line, err=True)
    if json_out != STDOUT:
        print_scores(results)
    if csv is not None:
        write_csv(csv, results)
        typer.echo(f"games: {csv}", err=json_out == STDOUT)
    write_json(json_out, results_document(results, repeats, seed))


@commands.command(
    name="from-game",
    epilog="Example: `entente scenarios from-game game.json --phase S1903M --country FRANCE --out mine.toml`",
)
def from_game(
    game: Annotated[Path, typer.Argument(metavar="GAME", help="A saved game, as `entente play --out` writes it.")],
    phase: Annotated[str, typer.Option(help="The phase in which the scenario begins, such as S1903M.")],
    country: Annotated[str, typer.Option(help="The country that is to be tested.")],
    out: Annotated[Path, typer.Option(callback=check_output, help="The scenario's file, which you then edit.")],
    family: Annotated[str, typer.Option(help="opening, alliance, crisis or endgame.")] = "crisis",
    partner: Annotated[str | None, typer.Option(help="The ally of an alliance.")] = None,
    years: Annotated[int, typer.Option(min=1, max=20, help="The horizon: the end of the autumn so many years on.")] = 1,
) -> None:
    """Make a scenario of a position of a saved game. Edit its title, task, notes and score afterwards."""
    _check_words(family, country if partner is None else f"{country},{partner}")
    from services.environments.diplomacy.scenarios.files import write
    from services.environments.diplomacy.scenarios.from_game import scenario_of

    ally = None if partner is None else partner.upper()
    made = scenario_of(game, phase.upper(), country.upper(), family=family, years=years, partner=ally)  # type: ignore[arg-type]
    write(made, out)
    typer.echo(f"{made.id}: written to {out}; `entente scenarios run dumbbot --file {out}` plays it")


def _check_words(family: str, country: str) -> tuple[list[str], list[str]]:
    from services.environments.diplomacy.position import POWERS
    from services.environments.diplomacy.scenarios.scenario import FAMILIES, ScenarioError

    families, countries = comma_separated(family.lower()), comma_separated(country.upper())
    for names, known, what in ((families, FAMILIES, "family"), (countries, POWERS, "country")):
        for name in names:
            if name not in known:
                raise ScenarioError(f"there is no {what} {name!r}; there are {', '.join(known)}")
    return families, countries


def _chosen(file: Sequence[Path] | None, family: str, country: str, ids: str = "") -> list[Scenario]:
    """The scenarios that the options name. Raises ScenarioError if there are none."""
    families, countries = _check_words(family, country)
    from services.environments.diplomacy.scenarios.files import all_named, in_path, shipped
    from services.environments.diplomacy.scenarios.scenario import ScenarioError

    if file:
        given = [each for path in file for each in in_path(path)]
        if twice := {each.id for each in given if sum(other.id == each.id for other in given) > 1}:
            raise ScenarioError(f"--file: two scenarios have the id {min(twice)}")
    else:
        given = list(shipped().values())
    if ids:
        known = {each.id: each for each in given}
        given = [known[name] if name in known else next(iter(all_named([name]))) for name in comma_separated(ids)]
    found = [
        each
        for each in given
        if (not families or each.family in families) and (not countries or each.country in countries)
    ]
    if not found:
        raise ScenarioError("no scenario is of this family, country and name; `entente scenarios list` has all")
    return found


def _shown(scenario: Scenario) -> list[str]:
    """The lines of ``show``."""
    from services.environments.diplomacy.position import POWERS
    from services.environments.diplomacy.scenarios.behaviour import described
    from services.environments.diplomacy.scenarios.scenario import Other
    from services.environments.diplomacy.scenarios.scores import MEANING

    lines = [
        f"{scenario.id}: {scenario.title}",
        f"{scenario.family}, {scenario.country}, {scenario.phase} to {scenario.horizon}",
        "",
    ]
    for power in POWERS:
        units, centers = scenario.units.get(power, ()), scenario.centers.get(power, ())
        if units or centers or power in scenario.retreats:
            mark = ">" if power == scenario.country else " "
            lines.append(f"{mark} {power:<8} {', '.join(units) or 'no units'}")
            lines.append(f"  {'':<8} {len(centers)} centres: {' '.join(centers)}")
            lines += [
                f"  {'':<8} dislodged: {unit}, to {' or '.join(places) or 'nowhere'}"
                for unit, places in scenario.retreats.get(power, {}).items()
            ]
    settings = scenario.score.model_dump(exclude_defaults=True)
    given = ", ".join(
        f"{key} {' '.join(value) if isinstance(value, tuple) else value}" for key, value in settings.items()
    )
    lines += ["", f"Task: {scenario.task}", f"Notes: {scenario.notes}", ""]
    lines += [f"Score, 0 to 1: {MEANING[scenario.score.aim or scenario.family]} ({given})", "The others:"]
    for power in POWERS:
        if power != scenario.country and (scenario.units.get(power) or scenario.centers.get(power)):
            other = scenario.others.get(power) or Other(plays=scenario.default)
            lines.append(f"  {power:<8} {described(other, scenario.country)}")
    return lines
