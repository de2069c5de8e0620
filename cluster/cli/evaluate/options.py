"""What the two commands share: which games are played and where, and how results are written."""

from __future__ import annotations

import csv
import io
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.api.arguments import MOST_GAMES, MOST_PRESS_ROUNDS
from cluster.cli.options import check_output, seed_option
from cluster.errors import RunError

if TYPE_CHECKING:
    from cluster.evaluation.figures.stopping import Stopping
    from cluster.evaluation.tables.places import Open
    from cluster.evaluation.tables.saving import GameFolder
    from opponents.players.chat_players import ChatPlayers
    from services.environments.diplomacy.ending import Ending
    from services.environments.diplomacy.settings import GameSettings
    from services.environments.environment import World

END_HELP = "'end' is 1935, or a draw after five years without a change of centres."
MOST_PROCESSES = 1024

GamesPerCountry = Annotated[
    int, typer.Option(min=1, max=MOST_GAMES, help="Games as each of the seven powers; with --stop-within, at most.")
]
Until = Annotated[str, typer.Option(metavar="YEAR|end", help=f"Last year of a game; {END_HELP}")]
Seed = Annotated[int, seed_option("The same seed gives every player the same games.")]
Temperature = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=100,
        help="Sampling temperature of players that are checkpoints; 0 is greedy.",
        show_default="evaluation.temperature of their run, or 1; 0.7 where they look ahead",
    ),
]
Press = Annotated[
    bool,
    typer.Option(
        "--press",
        help="Rounds of letters come before each movement phase, by the rules of the players' own runs, else two of "
        "private letters; the JSON also has promises, honesty, supports of others and attacks. muted:runs/press writes "
        "none.",
    ),
]
PressRounds = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST_PRESS_ROUNDS,
        help="Rounds of letters with --press.",
        show_default="game.press_rounds of the players' runs, or 2",
    ),
]
PublicPress = Annotated[
    bool | None,
    typer.Option(
        "--public-press/--private-press",
        help="Whether letters to all powers are delivered as well, with --press.",
        show_default="game.press_public of the players' runs, or private",
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST_PROCESSES,
        help="Processes that play; each opens the players itself. Several compute with one thread each.",
        show_default="one for each core, fewer where models need the memory; one with remote players",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Play on the Ray cluster at this address, or 'auto'; 'local' starts a Ray here. --processes is then the "
        "number of CPUs taken, by default all.",
    ),
]
SaveGames = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Also keep every game there, in the engine's format with who played, for `entente replay` or "
        "imitation.saved_games. With --ray the folder is one that all nodes share.",
    ),
]
Csv = Annotated[
    Path | None,
    typer.Option("--csv", callback=check_output, help="Also write a line for each player, opposition and country."),
]


def parse_stopping(within: str | None, when_clear: str | None, players: int) -> Stopping | None:
    """Read ``MEASURE=WIDTH`` of --stop-within or the measure of --stop-when-clear; None if neither is given.

    Raises RunError for anything else.
    """
    from cluster.evaluation.figures.stopping import Stopping

    if within is not None and when_clear is not None:
        raise RunError("give --stop-within or --stop-when-clear, not both: a rule is planned before the first game")
    if when_clear is not None:
        if players < 2:
            raise RunError("--stop-when-clear looks at differences, so it needs at least two players")
        return Stopping(when_clear.strip(), excludes_zero=True)
    if within is None:
        return None
    name, _, width = within.partition("=")
    try:
        half = float(width)
    except ValueError:
        half = 0.0
    if not (half > 0 and math.isfinite(half)):
        raise RunError(f"--stop-within {within[:80]!r} is not MEASURE=WIDTH, e.g. --stop-within mean_centers=0.5")
    return Stopping(name.strip(), half)


def game_folder(folder: Path | None, remotes: ChatPlayers, ending: Ending) -> GameFolder | None:
    """The folder of --save-games, made if it is missing; None without one. Raises RunError if it cannot be written."""
    if folder is None:
        return None
    from cluster.evaluation.tables.saving import GameFolder

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise RunError(f"--save-games {folder}: {error.strerror}; name a folder that can be written") from error
    return GameFolder(folder.absolute(), remotes, str(ending))


def place_for(
    names: Sequence[str], remotes: ChatPlayers, games: int, wanted: int | None, ray_address: str | None
) -> Open:
    """Where players of these names play ``games`` games; RunError for what cannot be combined."""
    from cluster.evaluation.tables.places import in_processes, processes_for, this_process
    from opponents.settings import REMOTE_PREFIX

    has_remotes = any(name.startswith(REMOTE_PREFIX) for name in names)
    if ray_address is not None:
        if has_remotes:
            raise RunError("remote players answer over the network, so they need no cluster: leave out --ray")
        from cluster.evaluation.tables.on_ray import on_ray

        return partial(on_ray, None if ray_address == "local" else ray_address, wanted)
    if has_remotes:
        return partial(this_process, remotes=remotes)
    return in_processes(min(games, wanted or processes_for(names)))


@contextmanager
def bars() -> Iterator[Any]:
    """Progress bars on standard error."""
    from cluster.runs.progress_bars import progress_bars

    with progress_bars() as add_bar:
        yield add_bar


def write_csv(path: Path | None, world: World, rows: Sequence[Mapping[str, Any]], facts: Sequence[str]) -> None:
    """Write rows flat: all countries together, then each; an interval has the columns ``_low`` and ``_high``."""
    from grpo_core.checkpoints.atomic_write import write_atomically

    if path is None:
        return
    names = [measure.row_name for measure in world.measures]
    ends = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    buffer = io.StringIO()
    lines = csv.writer(buffer, lineterminator="\n")
    who = ("version", "checksum", "against", "against_version", "against_checksum")
    lines.writerow(["player", *who, *facts, world.role_name, "games", *ends])
    for row in rows:
        for role, cells in (("all", row), *row[f"by_{world.role_name}"].items()):
            figures = [figure for name in names for figure in (cells[name], *(cells[f"{name}_ci95"] or (None, None)))]
            players = [row[key] for key in ("checkpoint", *who)]
            lines.writerow([*players, *(row[fact] for fact in facts), role, cells.get("games"), *figures])
    write_atomically(path, buffer.getvalue().encode())
    typer.echo(f"written to {path}")


def command_line(
    command: str, names: Sequence[str], given: Mapping[str, Any], press: GameSettings | None, public: bool | None
) -> str:
    """Return the command that plays the same games, wherever the same players are; options of None are left out.

    ``public`` is what was given of --public-press.
    """
    words = ["entente", command, *names]
    for option, value in given.items():
        words += [] if value is None else [option, value]
    words += [] if press is None else ["--press"]
    words += [] if public is None else ["--public-press" if public else "--private-press"]
    return shlex.join(map(str, words))


def say_warning(text: str | None) -> None:
    """Write a warning to standard error, if there is one."""
    if text is not None:
        typer.echo(f"warning: {text}", err=True)
