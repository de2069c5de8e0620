"""A drill on the screen: a table that grows while it goes on, or lines where there is no terminal."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cluster.drill.record import Overcome, Record


@contextmanager
def shown(record: Record, console: Console | None = None) -> Iterator[Callable[[str], None]]:
    """Show a drill while the block runs, and its summary at the end; gives what hears of every stage."""
    console = console or Console()
    if console.is_terminal:
        with Live(console=console, refresh_per_second=2) as live:

            def draw(stage: str) -> None:
                live.update(Group(faults_table(record), Text(f"{record.elapsed_s:6.0f} s  {stage}")))

            yield draw
            live.update(faults_table(record))
    else:
        seen = 0

        def say(stage: str) -> None:
            nonlocal seen
            for done in record.overcome[seen:]:
                console.print(_line(done), markup=False, highlight=False, soft_wrap=True)
            seen = len(record.overcome)
            console.print(f"{record.elapsed_s:6.0f} s  {stage}", markup=False, highlight=False, soft_wrap=True)

        yield say
    console.print(summary_table(record))
    if record.promises:
        console.print(promises_table(record))


def faults_table(record: Record) -> Table:
    """One row a fault."""
    table = Table("", "fault", "of", "the run", "recovered", title=f"{len(record.overcome)} of {record.wanted} faults")
    for number, done in enumerate(record.overcome, 1):
        table.add_row(str(number), done.kind, Text(done.what), done.reaction, f"{done.recovered_s:.1f} s")
    return table


def summary_table(record: Record) -> Table:
    """One row a kind."""
    table = Table("fault", "times", "the run", "recovered: median", "longest", title="Faults overcome")
    kinds: dict[str, list[Overcome]] = {}
    for done in record.overcome:
        kinds.setdefault(done.kind, []).append(done)
    for kind, same in sorted(kinds.items()):
        took = [done.recovered_s for done in same]
        table.add_row(kind, str(len(same)), same[0].reaction, f"{statistics.median(took):.1f} s", f"{max(took):.1f} s")
    return table


def promises_table(record: Record) -> Table:
    """One row a promise."""
    table = Table("promise", "kept", "found", title="Promises")
    for promise in record.promises:
        table.add_row(promise.text, "yes" if promise.kept else "NO", Text(promise.found))
    return table


def _line(done: Overcome) -> str:
    return f"         {done.kind} ({done.what}): the run {done.reaction}, update after {done.recovered_s:.1f} s"
