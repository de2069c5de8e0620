"""``entente play``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.api.arguments import LARGEST_SEED, check_ending
from cluster.cli.options import ChatPlayersConfig, check_output

if TYPE_CHECKING:
    from cluster.evaluation.prompt_report import PromptReport

commands = typer.Typer()
_END_HELP = "'end' is 1935, or a draw after five years without a change of centres."
LONGEST_LINE = 10_000  # characters of a prompt's line that are shown


@commands.command(
    epilog="Example: `entente play --seat FRANCE=dumbbot --seat TURKEY=runs/demo --out game.json --html game.html`"
)
def play(
    out: Annotated[
        Path, typer.Option(callback=check_output, help="Where to save the game, in the engine's own format.")
    ],
    seat: Annotated[
        list[str] | None,
        typer.Option(
            metavar="POWER=PLAYER", help="A bot, checkpoint or run folder, or remote:NAME, for one power; repeatable."
        ),
    ] = None,
    default: Annotated[str, typer.Option(help="The player of all other powers.")] = "random",
    until: Annotated[
        str, typer.Option(metavar="YEAR|end", help=f"Last year, which is played to its end; {_END_HELP}")
    ] = "1910",
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The same seed plays the same game.")] = 7,
    html: Annotated[
        Path | None, typer.Option(callback=check_output, help="Also write a page that shows it phase by phase.")
    ] = None,
    show_prompts: Annotated[
        bool,
        typer.Option(
            "--show-prompts",
            help="Also print what language models read: their first prompt of each kind of phase, and tokens by part.",
        ),
    ] = False,
    decisions: Annotated[
        bool | None,
        typer.Option(
            "--decisions/--no-decisions",
            help="Record what language models read and might have written, in a file beside the game.",
            show_default="with --html",
        ),
    ] = None,
    config: ChatPlayersConfig = None,
) -> None:
    """Play one game and save it."""
    from cluster.evaluation.players import chat_players, check_player, parse_seats

    seats, ending = parse_seats(seat or [], default), check_ending("--until", until)
    remotes = chat_players(config)
    for name in dict.fromkeys(seats.values()):
        check_player(name, remotes)
    from cluster.evaluation.play import play as play_one  # the engine is slow to import; wrong names need none

    prompts = None
    if show_prompts:
        from cluster.evaluation.prompt_report import PromptReport

        prompts = PromptReport()
    recorder = None
    if decisions or (decisions is None and html is not None):
        from cluster.evaluation.decision_recorder import DecisionRecorder

        recorder = DecisionRecorder()
    try:
        outcome = play_one(seats, ending, seed, out, remotes, prompts, recorder)
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
        from services.reports.game_viewer.game_viewer import write_viewer

        write_viewer(out, html)
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
