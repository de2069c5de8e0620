"""``entente play``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.api.arguments import check_ending
from cluster.cli.evaluate.options import PressRounds, PublicPress, say_warning
from cluster.cli.options import ChatPlayersConfig, check_output, seed_option

if TYPE_CHECKING:
    from cluster.evaluation.records.prompt_report import PromptReport

commands = typer.Typer()
_END_HELP = "'end' is 1935, or a draw after five years without a change of centres."
LONGEST_LINE = 10_000  # characters of a prompt's line that are shown

_RECORDS, _IN_BROWSER = "Records of a game", "In the browser, with --web"


@commands.command(
    epilog="Examples: `entente play --seat FRANCE=dumbbot --seat TURKEY=runs/demo --out game.json --html game.html`, "
    "and in the browser `entente play --web --seat FRANCE=person --default runs/demo`"
)
def play(
    out: Annotated[
        Path | None,
        typer.Option(
            callback=check_output,
            help="Where to save the game, in the engine's own format; needed, unless it is played with --web.",
        ),
    ] = None,
    seat: Annotated[
        list[str] | None,
        typer.Option(
            metavar="POWER=PLAYER",
            help="A bot, champion, a checkpoint or run folder, or remote:NAME, for one power; with --web also a name "
            "of --player, or person; repeatable.",
        ),
    ] = None,
    default: Annotated[
        str | None,
        typer.Option(help="The player of all other powers.", show_default="random; dumbbot with --web"),
    ] = None,
    until: Annotated[
        str, typer.Option(metavar="YEAR|end", help=f"Last year, which is played to its end; {_END_HELP}")
    ] = "1910",
    seed: Annotated[int, seed_option("The same seed plays the same game.")] = 7,
    draw_votes: Annotated[
        bool,
        typer.Option(
            "--draw-votes",
            help="Players vote with their movement orders whether to end the game as a draw of all survivors; bots do "
            "after two years without a change of centres, who alone has most after four.",
        ),
    ] = False,
    press: Annotated[
        bool,
        typer.Option(
            "--press",
            help="Rounds of letters come before each movement phase, by the rules of the players' own runs, else two "
            "of private letters: honest, keeper, breaker, stabber and chatter are bots that negotiate; policies that "
            "have not learned the words of press are silent.",
        ),
    ] = False,
    press_rounds: PressRounds = None,
    public_press: PublicPress = None,
    html: Annotated[
        Path | None,
        typer.Option(
            callback=check_output, rich_help_panel=_RECORDS, help="Also write a page that shows it phase by phase."
        ),
    ] = None,
    show_prompts: Annotated[
        bool,
        typer.Option(
            "--show-prompts",
            rich_help_panel=_RECORDS,
            help="Also print what language models read: their first prompt of each kind of phase, and tokens by part.",
        ),
    ] = False,
    web: Annotated[bool, typer.Option("--web", help="Play in the browser, until Ctrl-C.")] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, rich_help_panel=_IN_BROWSER, help="Its port; 0 is any free one.")
    ] = 8642,
    host: Annotated[str, typer.Option(rich_help_panel=_IN_BROWSER, help="The address to listen on.")] = "127.0.0.1",
    allow_network: Annotated[
        bool,
        typer.Option(
            "--allow-network", rich_help_panel=_IN_BROWSER, help="Allow a --host that others in the network can reach."
        ),
    ] = False,
    player: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PLAYER",
            rich_help_panel=_IN_BROWSER,
            help="A checkpoint or run folder, or remote:NAME, that can be seated on the page; repeatable.",
        ),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN",
            rich_help_panel=_IN_BROWSER,
            help="A run whose population can be seated on the page; repeatable.",
        ),
    ] = None,
    games_dir: Annotated[Path, typer.Option(rich_help_panel=_IN_BROWSER, help="Where games are kept.")] = Path(
        "games/web"
    ),
    no_browser: Annotated[
        bool,
        typer.Option("--no-browser", rich_help_panel=_IN_BROWSER, help="Print the address without opening a browser."),
    ] = False,
    decisions: Annotated[
        bool | None,
        typer.Option(
            "--decisions/--no-decisions",
            rich_help_panel=_RECORDS,
            help="Record what language models read and might have written, in a file beside the game.",
            show_default="with --html",
        ),
    ] = None,
    config: ChatPlayersConfig = None,
) -> None:
    """Play one game and save it, or play in the browser against any players (--web).

    In a terminal a board shows the game as it goes. With --web, seats are changed, phases gone back to and games saved
    and loaded on the page; a game begins at once if a seat is a person's.
    """
    from cluster.errors import RunError
    from cluster.evaluation.players.opening import agreeing_world, chat_players, check_player, parse_seats
    from cluster.evaluation.players.press_rules import chosen_press

    ending = check_ending("--until", until)
    if web:
        of_press = press or press_rounds is not None or public_press is not None
        if out is not None or html is not None or show_prompts or draw_votes or of_press or decisions is not None:
            raise RunError(
                "--out, --html, --show-prompts, --draw-votes, --press and --decisions are of games without --web"
            )
        from cluster.play_server.command import play_in_browser

        play_in_browser(
            host=host,
            port=port,
            allow_network=allow_network,
            games_dir=games_dir,
            seats=seat or [],
            default=default or "dumbbot",
            players=player or [],
            runs=run or [],
            until=until,
            seed=seed,
            open_browser=not no_browser,
            remotes=chat_players(config),
            say=typer.echo,
            warn=lambda text: typer.echo(f"warning: {text}", err=True),
        )
        return
    if out is None:
        raise RunError("--out is missing: name the file that the game is saved to, or play in the browser with --web")
    if player or run or allow_network or no_browser:
        raise RunError("--player, --run, --allow-network and --no-browser are options of --web")
    seats = parse_seats(seat or [], default or "random")
    if "person" in seats.values():
        raise RunError("a person plays in the browser: add --web, and leave --out away")
    rules, warning = chosen_press(seats.values(), press=press, rounds=press_rounds, public=public_press)
    world = agreeing_world(draw_votes=draw_votes, press=rules)
    remotes = chat_players(config, world)
    for name in dict.fromkeys(seats.values()):
        check_player(name, remotes)
    say_warning(warning)
    from cluster.evaluation.play import play as play_one  # the engine is slow to import; wrong names need none

    prompts = None
    if show_prompts:
        from cluster.evaluation.records.prompt_report import PromptReport

        prompts = PromptReport()
    from rich.console import Console

    from cluster.evaluation.records.live_board import live_board

    recorder = None
    if decisions or (decisions is None and html is not None):
        from cluster.evaluation.records.decision_recorder import DecisionRecorder

        recorder = DecisionRecorder()
    try:
        with live_board(seats, Console()) as show:
            outcome = play_one(seats, ending, seed, out, remotes, prompts, recorder, show, world=world)
    finally:  # print the cost of calls after a failure too
        _print_lines(remotes.report())
    typer.echo(f"{outcome.kind.replace('_', ' ')} after {outcome.phases} phases, {outcome.final_year}; saved to {out}")
    for power, centers in sorted(outcome.centers.items(), key=lambda item: (-item[1], item[0])):
        typer.echo(
            f"  {power:<8} {seats[power]:<12} {centers:>2} centres{'  wins' if power in outcome.winners else ''}"
        )
    if prompts is not None:
        _print_prompts(prompts)
    if html is not None:
        from services.environments.diplomacy.measures.press.story import press_story
        from services.reports.game_viewer.game_viewer import write_viewer

        write_viewer(out, html, press_story)
        typer.echo(f"phase by phase: {html}")


def _print_prompts(prompts: PromptReport) -> None:
    from rich.console import Console

    from grpo_core.errors import one_line

    for title, text in prompts.texts():
        typer.echo("\n".join(["", f"--- {title}", *(one_line(line, LONGEST_LINE) for line in text.split("\n"))]))
    console = Console()
    tables = prompts.tables()
    for table in tables:
        console.print()
        console.print(table)
    if not tables:
        typer.echo("no player of this game reads prompts: bots do not")


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)
