"""Progress of long work on stderr: a bar for each part in a terminal, otherwise a line for each tenth."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from services.metrics.display.console import console_on

AddBar = Callable[[str, int], Callable[[int], None]]  # (name, steps) -> advance(steps done)


@contextmanager
def progress_bars(console: Console | None = None) -> Iterator[AddBar]:
    """Yield ``add_bar(name, steps)``; it returns the function that advances the new bar."""
    console = console or console_on(sys.stderr, Console)
    if not console.is_terminal:
        yield lambda name, steps: _lines(console, name, steps)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bars:

        def add_bar(name: str, steps: int) -> Callable[[int], None]:
            bar = bars.add_task(name, total=steps)
            return lambda done: bars.update(bar, advance=done)

        yield add_bar


def duration_text(seconds: float) -> str:
    """Format the length of work to come: ``about 40 s``, ``about 3 min``."""
    return f"about {math.ceil(seconds)} s" if seconds < 100 else f"about {math.ceil(seconds / 60)} min"


def _lines(console: Console, name: str, steps: int) -> Callable[[int], None]:
    made = 0

    def advance(done: int) -> None:
        nonlocal made
        tenths = made * 10 // max(steps, 1)
        made += done
        if made * 10 // max(steps, 1) > tenths:
            console.print(f"{name}: {made:,} of {steps:,}", markup=False, highlight=False)

    return advance
