"""The ``entente`` command. Heavy packages are imported inside the commands, so that ``--help`` answers at once."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.exceptions import TyperException

from cluster.cli import compare as compare_methods
from cluster.cli import data, diagnostics, export, pages, solve, training
from cluster.cli.evaluate import compare, evaluate, ladder
from cluster.cli.games import play, replay, scenarios
from cluster.cli.groups import groups
from cluster.cli.output import discard, say
from cluster.cli.population.population import population_app
from cluster.cli.press import conduct, listen
from cluster.errors import INTERRUPTED
from grpo_core.errors import EntenteError, one_line

app = typer.Typer(
    help="Train language-model policies by country-grouped GRPO: to play seven-power Diplomacy, or in other worlds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        from cluster.runs.provenance import UNKNOWN, commit

        found = commit()
        typer.echo(f"entente {metadata.version('entente')}" + ("" if found == UNKNOWN else f" (commit {found})"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version, and the commit if known.",
        ),
    ] = False,
) -> None:
    pass


for module in (
    training,
    play,
    evaluate,
    compare,
    compare_methods,
    ladder,
    replay,
    conduct,
    solve,
    export,
    pages,
    diagnostics,
):
    app.add_typer(module.commands)
app.add_typer(groups.commands, name="groups")
app.add_typer(data.commands, name="data")
app.add_typer(scenarios.commands, name="scenarios")
app.add_typer(population_app, name="population")
app.add_typer(listen.listen_app, name="listen")
app.add_typer(diagnostics.buffer, name="buffer")


def main(prefix: Sequence[str] = ()) -> NoReturn:
    """Run the command line; an ``EntenteError`` is one line on stderr (exit codes: ``cluster.errors``).

    So is a file or folder that the operating system refuses and no command expected.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # a path may hold bytes that are no text
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code: Any = app(args=[*prefix, *sys.argv[1:]], standalone_mode=False, prog_name="entente")
    except (typer.Abort, KeyboardInterrupt):
        stop("stopped", INTERRUPTED)
    except TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if type(error).__name__ == "NoArgsIsHelpError":  # the help is on the screen already
            sys.exit(2)
        stop(f"error: {message} (entente --help shows the commands)", 2)
    except EntenteError as error:
        stop(f"error: {error}", error.exit_code)
    except OSError as error:
        if error.filename is None:
            end_without_output(error)
        stop(f"error: {error.filename}: {error.strerror}; name another place, or mend this one", 2)
    if code == INTERRUPTED:  # typer's answer to Ctrl-C; commands that say more end by ``sys.exit``
        stop("stopped", INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def end_without_output(error: OSError) -> NoReturn:
    """End a command that cannot print; re-raises an error that is not about that, which is a bug."""
    try:
        print(flush=True)
    except OSError as refused:
        discard(sys.stdout)
        stop(f"error: the output cannot be written: {refused.strerror}", 2)
    raise error


def stop(text: str, code: int) -> NoReturn:
    """End the command with one line on stderr, of at most 500 printable characters."""
    say(one_line(text), err=True)
    sys.exit(code)
