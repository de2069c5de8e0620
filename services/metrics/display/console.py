"""Consoles that draw on terminals alone."""

from __future__ import annotations

from typing import TextIO, TypeVar

from rich.console import Console

ConsoleT = TypeVar("ConsoleT", bound=Console)


def console_on(file: TextIO, kind: type[ConsoleT]) -> ConsoleT:
    """Make a console of a ``kind`` that writes to ``file``: plain lines unless it is a terminal.

    A notebook's kernel asks for colours (FORCE_COLOR), which would arrive as escape codes, and rich would send each
    line there as a page; it gets plain lines too.
    """
    in_notebook = Console().is_jupyter
    return kind(
        file=file,
        highlight=False,
        force_jupyter=False,
        force_terminal=False if in_notebook else None,
        color_system=None if in_notebook else "auto",
    )
