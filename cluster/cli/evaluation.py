"""``entente play`` and ``entente evaluate``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from cluster.cli.options import (
    LARGEST_SEED,
    MOST_GAMES,
    ChatPlayersConfig,
    Json,
    check_output,
    comma_separated,
    write_json,
)

commands = typer.Typer()


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
    until: Annotated[int, typer.Option(min=1901, max=1999, help="Last year played to its end.")] = 1910,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The same seed plays the same game.")] = 7,
    html: Annotated[
        Path | None, typer.Option(callback=check_output, help="Also write a page that shows it phase by phase.")
    ] = None,
    config: ChatPlayersConfig = None,
) -> None:
    """Play one game and save it."""
    from cluster.evaluation.play import play as play_one
    from cluster.evaluation.players import chat_players, parse_seats

    seats = parse_seats(seat or [], default)
    remotes = chat_players(config)
    try:
        record = play_one(seats, until, seed, out, remotes)
    finally:  # print the cost of calls after a failure too
        _print_lines(remotes.report())
    outcome = record.outcome
    typer.echo(f"{outcome.kind.replace('_', ' ')} after {outcome.phases} phases, {outcome.final_year}; saved to {out}")
    for power, centers in sorted(outcome.centers.items(), key=lambda item: (-item[1], item[0])):
        typer.echo(
            f"  {power:<8} {seats[power]:<12} {centers:>2} centres{'  wins' if power in outcome.winners else ''}"
        )
    if html is not None:
        from services.reports.game_viewer.game_viewer import write_viewer

        write_viewer(out, html, seats=seats)
        typer.echo(f"phase by phase: {html}")


@commands.command(
    epilog="Example: `entente evaluate runs/demo --against random,dumbbot --games-per-country 10 --until 1905`"
)
def evaluate(
    candidate: Annotated[str, typer.Argument(help="A checkpoint or run folder, a bot, or remote:NAME.")],
    against: Annotated[
        str, typer.Option(help="Bots or remote:NAMEs, comma-separated; each fills the six other seats in turn.")
    ] = "random",
    games_per_country: Annotated[
        int, typer.Option(min=1, max=MOST_GAMES, help="Games as each of the seven powers.")
    ] = 10,
    until: Annotated[int, typer.Option(min=1901, max=1999, help="Last year of a game.")] = 1910,
    seed: Annotated[
        int, typer.Option(min=0, max=LARGEST_SEED, help="The same seed gives every candidate the same games.")
    ] = 0,
    temperature: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=100,
            help="Sampling temperature of a candidate that is a checkpoint; 0 is greedy.",
            show_default="evaluation.temperature of its run, or 1",
        ),
    ] = None,
    json_out: Json = None,
    config: ChatPlayersConfig = None,
) -> None:
    """Measure a player against fixed anchors, all seven countries alike, with 95 % intervals.

    A game without a power that has more centres than the player counts as a lead, ties included.
    """
    from cluster.errors import RunError
    from cluster.evaluation.play import evaluate as measure
    from cluster.evaluation.players import chat_players
    from cluster.runs.progress_bars import progress_bars

    names = comma_separated(against)
    if not names:
        raise RunError("--against names no player; give bots, e.g. --against random,dumbbot")
    remotes = chat_players(config)
    try:
        with progress_bars() as add_bar:
            rows = measure(
                candidate,
                names,
                games_per_country=games_per_country,
                until_year=until,
                seed=seed,
                temperature=temperature,
                remotes=remotes,
                add_bar=add_bar,
            )
    finally:
        _print_lines(remotes.report())
    for row in rows:
        typer.echo(_evaluation_text(row))
    counters = remotes.stats()
    write_json(json_out, {"candidate": candidate, "evaluations": rows, **({"remotes": counters} if counters else {})})


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def _evaluation_text(row: dict[str, Any]) -> str:
    """Format a table of 80 columns: a line for each country, and one for all."""
    from cluster.evaluation.evaluation_games import rate_text

    def cells(values: dict[str, Any]) -> str:
        interval = values["mean_centers_ci95"]
        bounds = "" if interval is None else f"[{interval[0]:.1f}, {interval[1]:.1f}]"
        rates = (f"{rate_text(values, name):<14}" for name in ("survival_rate", "top_rate", "win_rate"))
        return f"{values['mean_centers']:5.2f} {bounds:<13}{values['sum_of_squares']:.3f}  {''.join(rates)}".rstrip()

    return "\n".join(
        [
            f"{row['checkpoint']} against six {row['against']}, {row['games']} games to {row['until_year']}",
            f"  {'':<9}{'centres':<18} squares {'survives':<14}{'leads':<14}solos",
            *(f"  {power:<8} {cells(values)}" for power, values in row["by_country"].items()),
            f"  {'all':<8} {cells(row)}",
            "  leads: no power had more centres at the end; ties count. [95 % intervals]",
        ]
    )
