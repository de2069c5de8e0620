"""What the tables of several commands share, on a terminal from 80 columns."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grpo_core.errors import one_line


def new_table(first: str, *numbers: str, number_width: int | None = None) -> Table:
    """Make a table that folds the names in its first column, never the numbers, in a narrow terminal."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold", min_width=12)
    for name in numbers:
        table.add_column(name, justify="right", min_width=number_width, no_wrap=True)
    return table


def plain(text: str) -> Text:
    """A text of a file as a cell: printable, and not taken for markup."""
    return Text(one_line(text))


def print_note(console: Console, text: str) -> None:
    """Print the explanation of a table."""
    console.print(text, style="dim", markup=False, highlight=False)
