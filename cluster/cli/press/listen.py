"""``entente listen``: a listener learns from saved games with press, and is asked about others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.cli.options import JsonOrStdout, comma_separated, seed_option, write_json
from cluster.cli.output import say
from cluster.cli.press.saved_games import saved_files
from cluster.errors import RunError

if TYPE_CHECKING:
    from grpo_core.statistics.estimate import Estimate
    from opponents.listening.listener import HeardGame, Hearing

listen_app = typer.Typer(
    help="A listener predicts what partners do after what they have said, and whether they keep their promises.",
    no_args_is_help=True,
)
Games = Annotated[
    list[Path],
    typer.Argument(metavar="GAME|FOLDER", help="Saved games with press, or folders of them (*.json)."),
]
Partners = Annotated[
    str,
    typer.Option(
        help="Only questions about these players, comma-separated, as the games' records of seats name them.",
        show_default="all",
    ),
]
Most = Annotated[
    int, typer.Option("--questions", min=1, max=100_000, help="At most so many of each kind in a game, drawn evenly.")
]


@listen_app.command(
    epilog="Examples: `entente listen learn games/press --out models/listener`, "
    "`entente listen learn games/press --partners honest,breaker --out models/listener`"
)
def learn(
    games: Games,
    out: Annotated[Path, typer.Option(help="Folder of the listener.")],
    partners: Partners = "",
    questions: Most = 60,
    epochs: Annotated[int, typer.Option(min=1, max=1000, help="Passes over all questions.")] = 3,
    learning_rate: Annotated[float, typer.Option(min=1e-8, max=1.0, help="Highest step size of AdamW.")] = 2e-3,
    seed: Annotated[int, seed_option("Of weights, questions and their sequence.")] = 0,
) -> None:
    """Learn a listener from saved games: a small policy that reads what a power could read.

    It learns which orders each partner gave and whether it kept all that it had promised to the reader; half of the
    orders are predicted without the press, so that both can be compared. A tenth of the games is only measured.
    """
    from cluster.imitation.listener import learn_listener, read_games
    from cluster.runs.progress_bars import progress_bars

    if out.exists():
        raise RunError(f"{out} is there already; choose another folder, or remove it")
    asked = comma_separated(partners)
    with progress_bars() as add_bar:
        read = read_games(list(saved_files(games)), add_bar, asked, questions, seed)
        made = learn_listener(read, out, add_bar, partners=asked, epochs=epochs, learning_rate=learning_rate, seed=seed)
    typer.echo(
        f"learned from {made.turns:,} questions of {made.games} games: {made.nats_before:.3f} -> {made.nats_after:.3f} "
        f"nats a token in games it has not seen; saved to {out}"
    )


@listen_app.command(epilog="Examples: `entente listen ask models/listener games/others --json heard.json`")
def ask(
    listener: Annotated[Path, typer.Argument(help="Folder that `entente listen learn` wrote.")],
    games: Games,
    partners: Partners = "",
    questions: Most = 60,
    seed: Annotated[int, seed_option("Of the questions that are drawn.")] = 0,
    json_out: JsonOrStdout = None,
) -> None:
    """Ask a listener about saved games: does it find broken promises, and do letters tell it what partners will do?

    "found" is the probability that it finds a broken promise likelier to be broken than a kept one: 50 % is guessing.
    "surprise" is what it finds the orders of a partner worth in bits, "gained" how many fewer than without the press.
    Intervals of 95 % hold between games.
    """
    import asyncio

    from cluster.cli.options import STDOUT
    from cluster.imitation.listener import open_listener, read_games
    from cluster.runs.progress_bars import progress_bars
    from opponents.listening.listener import hearing, listen

    policy, learned = open_listener(listener)
    with progress_bars() as add_bar:
        read = read_games(list(saved_files(games)), add_bar, comma_separated(partners), questions, seed)
        if known := sum(game.name in learned for game in read):
            say(f"{known} of these {len(read)} games are among those that the listener has learned from")
        advance = add_bar("listening", len(read))

        async def heard_all() -> list[HeardGame]:
            found = []
            for game in read:
                found.append(await listen(policy, game))
                advance(1)
            return found

        heard = asyncio.run(heard_all())
    met = sorted({game.seated.get(each.partner, each.partner) for game in read for each in game.expected})
    rows = {"all": hearing(heard), **{name: hearing(heard, name) for name in met}}
    if json_out != STDOUT:
        _show(rows, len(read))
    figures = [{"partner": name, **_row(row)} for name, row in rows.items()]
    write_json(json_out, {"games": len(read), "hearing": figures})


def _row(row: Hearing) -> dict[str, Any]:
    figures: dict[str, Any] = {"promises": row.promises, "broken": row.broken, "sheets": row.sheets}
    for name in ("area", "bits", "gained"):
        estimate: Estimate | None = getattr(row, name)
        figures[name] = None if estimate is None else estimate.mean
        figures[f"{name}_ci95"] = None if estimate is None or estimate.interval is None else list(estimate.interval)
    return figures


def _show(rows: dict[str, Hearing], games: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Partners in {games} game{'s' if games != 1 else ''}", title_justify="left")
    for name in ("partner", "promises", "broken", "found", "sheets", "surprise", "gained"):
        table.add_column(name, justify="left" if name == "partner" else "right")
    for name, row in rows.items():
        broken = "-" if row.broken is None else f"{row.broken:.0%}"
        figures = (_shown(row.area, percent=True), str(row.sheets), _shown(row.bits), _shown(row.gained))
        table.add_row(name, str(row.promises), broken, *figures)
    Console().print(table)


def _shown(estimate: Estimate | None, *, percent: bool = False) -> str:
    if estimate is None:
        return "-"

    def text(value: float) -> str:
        return f"{value:.0%}" if percent else f"{value:.2f}"

    ends = "" if estimate.interval is None else f" [{', '.join(map(text, estimate.interval))}]"
    return f"{text(estimate.mean)}{ends}"
