"""Options that several commands share, and how a command writes its results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cluster.api.arguments import LARGEST_SEED

STDOUT = Path("-")  # in place of a file


def check_output(path: Path | None) -> Path | None:
    """Callback of an option: raise RunError before any work is done if the output cannot be written."""
    if path is not None:
        from cluster.runs.folder import check_writable

        check_writable(path)
    return path


def check_output_or_stdout(path: Path | None) -> Path | None:
    """Callback of an option: as ``check_output``, but ``-`` is the standard output."""
    return path if path == STDOUT else check_output(path)


def read_seed(text: str | int) -> int:
    """Read a seed; an option of a range would show its digits beside every other option of the ``--help``."""
    try:
        seed = int(text)
    except ValueError:  # also thousands of digits
        seed = -1
    if not 0 <= seed <= LARGEST_SEED:
        raise typer.BadParameter(f"a seed is a whole number from 0 to {LARGEST_SEED}")
    return seed


def seed_option(meaning: str) -> Any:
    """The option ``--seed`` with its help text."""
    return typer.Option(parser=read_seed, metavar="N", help=meaning)


Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one key of the config; repeatable."),
]
ChatPlayersConfig = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="A config whose [opponents.remotes] describes players remote:NAME."),
]
Json = Annotated[
    Path | None, typer.Option("--json", callback=check_output, help="Also write the results to this file as JSON.")
]
JsonOrStdout = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE|-", callback=check_output_or_stdout, help="Write JSON to a file; - prints it alone."
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")]


def write_json(path: Path | None, document: Any) -> None:
    """Write results as JSON, with null for numbers that are not finite, and print where; nothing without a path.

    The path ``STDOUT`` prints them.
    """
    from pydantic_core import to_json

    from grpo_core.checkpoints.atomic_write import writing

    if path == STDOUT:
        typer.echo(to_json(document, indent=2, inf_nan_mode="null").decode())
    elif path is not None:
        with writing(path):
            path.write_bytes(to_json(document, indent=2, inf_nan_mode="null") + b"\n")
        typer.echo(f"written to {path}")


def comma_separated(names: str) -> list[str]:
    """The names in a comma-separated option, each once, in their order."""
    return list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
