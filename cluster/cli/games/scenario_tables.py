"""How ``entente scenarios run`` shows its scores: tables by family and country, and a line for each game."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, fields
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cluster.cli.tables import new_table, plain, print_note
from cluster.evaluation.scenario_runs import ALL, ScenarioResult, ScoreRow, score_rows
from grpo_core.checkpoints.atomic_write import write_atomically


def print_scores(results: Sequence[ScenarioResult], console: Console | None = None) -> None:
    """Print each player's scores by family, and by country where there are several."""
    console = console or Console()
    rows = score_rows(results)
    several = len({row.country for row in rows}) > 2
    console.print(_table("family", [(row.family, row) for row in rows if row.country == ALL]))
    if several:
        console.print(_table("country", [(row.country, row) for row in rows if row.family == ALL]))
    print_note(
        console,
        "Scores from 0 to 1 with 95 % intervals; the repeats of a scenario count as one cluster. Difference: to the "
        "first player, over the same seeds.",
    )


def write_csv(path: Path, results: Sequence[ScenarioResult]) -> None:
    """Write one line for each game, with a header."""
    text = StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(ScenarioResult)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(asdict, results))
    write_atomically(path, text.getvalue().encode())


def _table(name: str, rows: Sequence[tuple[str, ScoreRow]]) -> Table:
    table = new_table("player", name, "games", "score", "difference")
    last = ""
    for label, row in rows:
        if last and label != last:
            table.add_section()
        last = label
        table.add_row(
            plain(row.player),
            label.lower() if name == "family" else label,
            f"{row.games:,}",
            f"{row.score:.2f} {_interval(row.score_ci95, '.2f')}",
            "" if row.difference is None else f"{row.difference:+.2f} {_interval(row.difference_ci95, '+.2f')}",
        )
    return table


def _interval(ends: tuple[float, float] | None, form: str) -> str:
    return "" if ends is None else f"[{ends[0]:{form}}, {ends[1]:{form}}]"
