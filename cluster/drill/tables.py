"""A drill on the screen: a growing table in a terminal, lines elsewhere."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cluster.drill.record import Record, RecoveredFault


@contextmanager
def shown(record: Record, console: Console | None = None) -> Iterator[Callable[[str], None]]:
    """Show a drill while the block runs, and its summary at the end; yields a callback for every stage."""
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
            for done in record.recovered[seen:]:
                line = f"{done.kind} ({done.what}): the run {done.reaction}, update after {done.recovered_s:.1f} s"
                console.print(f"         {line}", markup=False, highlight=False, soft_wrap=True)
            seen = len(record.recovered)
            console.print(f"{record.elapsed_s:6.0f} s  {stage}", markup=False, highlight=False, soft_wrap=True)

        yield say
    console.print(summary_table(record))
    if record.checks:
        console.print(checks_table(record))


def faults_table(record: Record) -> Table:
    """One row a fault."""
    table = Table("", "fault", "of", "the run", "recovered", title=f"{len(record.recovered)} of {record.wanted} faults")
    for number, done in enumerate(record.recovered, 1):
        table.add_row(str(number), done.kind, Text(done.what), done.reaction, f"{done.recovered_s:.1f} s")
    return table


def summary_table(record: Record) -> Table:
    """One row a kind."""
    table = Table(
        "fault",
        "times",
        "the run",
        "recovered: median",
        "longest",
        "ended: median",
        "longest",
        title="Recovered faults",
    )
    kinds: dict[str, list[RecoveredFault]] = {}
    for done in record.recovered:
        kinds.setdefault(done.kind, []).append(done)
    for kind, same in sorted(kinds.items()):
        took = [done.recovered_s for done in same]
        ended = [done.ending.seconds for done in same if done.ending is not None]
        table.add_row(kind, str(len(same)), same[0].reaction, *_median_and_longest(took), *_median_and_longest(ended))
    return table


def _median_and_longest(seconds: list[float]) -> tuple[str, str]:
    return (f"{statistics.median(seconds):.1f} s", f"{max(seconds):.1f} s") if seconds else ("", "")


def checks_table(record: Record) -> Table:
    """One row a check."""
    table = Table("check", "passed", "found", title="Promises")
    for check in record.checks:
        table.add_row(check.text, "yes" if check.passed else "NO", Text(check.found))
    return table
