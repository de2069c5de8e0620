"""Progress of long work that has several stages: a bar each in a terminal, a line every tenth elsewhere; on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Stage = Callable[[str, int], Callable[[int], None]]


@contextmanager
def stages(console: Console | None = None) -> Iterator[Stage]:
    """Give ``stage(name, steps)``, which gives what hears of steps done."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield lambda name, steps: _lines(console, name, steps)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bars:

        def stage(name: str, steps: int) -> Callable[[int], None]:
            bar = bars.add_task(name, total=steps)
            return lambda done: bars.update(bar, advance=done)

        yield stage


def _lines(console: Console, name: str, steps: int) -> Callable[[int], None]:
    made = 0

    def advance(done: int) -> None:
        nonlocal made
        tenths = made * 10 // max(steps, 1)
        made += done
        if made * 10 // max(steps, 1) > tenths:
            console.print(f"{name}: {made:,} of {steps:,}", markup=False, highlight=False)

    return advance
