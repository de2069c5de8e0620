"""``entente replay``: saved games as pages to think with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cluster.cli.options import check_output

commands = typer.Typer()


@commands.command(
    epilog="Examples: `entente replay game.json`, `entente replay game.json --policy runs/demo --seat FRANCE`, "
    "`entente replay one.json other.json --out both.html`"
)
def replay(
    games: Annotated[
        list[Path],
        typer.Argument(metavar="GAME [OTHER]", help="A saved game, or two, which are shown side by side."),
    ],
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER|champion",
            help="A checkpoint or run: also show how probable it finds the orders of each decision.",
        ),
    ] = None,
    seat: Annotated[
        list[str] | None,
        typer.Option(
            metavar="POWER",
            help="A power whose decisions --policy is asked about; repeatable.",
            show_default="the powers that it played in the game, or else all",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(callback=check_output, help="The page.", show_default="the game's name with .html"),
    ] = None,
) -> None:
    """Make a page of a saved game: the map phase by phase, orders, messages, and each recorded decision.

    A decision shows what a language model read, its legal orders with their probabilities, what it chose, and, of
    training games, how the update judged it. `entente play --html` records decisions, and a run those of some of its
    training games, in games/training, to which its report links. Two games are shown side by side, from the phase in
    which they part.
    """
    from cluster.errors import RunError
    from cluster.evaluation.players.opening import check_player
    from opponents.champion.shipped import CHAMPION
    from opponents.player_names import player_name
    from opponents.players.chat_players import ChatPlayers

    if len(games) > 2:
        raise RunError(f"one game or two can be shown, and {len(games)} were named")
    if seat and policy is None:
        raise RunError("--seat names powers that --policy is asked about; give --policy too")
    if policy is not None:
        saved = player_name(policy).saved
        if saved != CHAMPION and not Path(saved).is_dir():
            raise RunError(f"--policy {policy} is no folder; give a checkpoint or a run, e.g. runs/demo, or {CHAMPION}")
        check_player(policy, ChatPlayers({}))
    from cluster.evaluation.replay import write_replay  # the engine is slow to import; wrong names need none
    from cluster.runs.progress_bars import progress_bars

    page = out or check_output(games[0].with_suffix(".html"))
    assert page is not None
    with progress_bars() as add_bar:
        lines = write_replay(games, page, policy=policy, seats=seat or (), add_bar=add_bar)
    for line in lines:
        typer.echo(line)
    typer.echo(f"replay: {page}")
