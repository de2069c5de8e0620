"""Progress of long work that has several stages: a bar each, on stderr, with the time that is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Stage = Callable[[str, int], Callable[[int], None]]


@contextmanager
def stages() -> Iterator[Stage]:
    """Give ``stage(name, steps)``, which shows a bar and gives what hears of steps done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:

        def stage(name: str, steps: int) -> Callable[[int], None]:
            bar = bars.add_task(name, total=steps)
            return lambda done: bars.update(bar, advance=done)

        yield stage
