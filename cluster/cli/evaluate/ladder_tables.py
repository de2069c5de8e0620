"""A ladder as one table of 80 columns: players, then published figures, then which neighbours are alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from cluster.cli.evaluate.tables import letters_text
from cluster.cli.tables import new_table, plain, print_note
from cluster.evaluation.ladder.columns import Column
from cluster.evaluation.ladder.document import scale_text
from cluster.evaluation.ladder.ladder import Ladder
from cluster.evaluation.ladder.neighbours import neighbour_text
from services.environments.environment import World

NOTE = (
    "Intervals are of 95 %. most SC: the lead of a game without a winner. leads: solos and most SC together, ties "
    "included. split: the lead shared by those that tie."
)


def print_ladder(found: Ladder, shown: Sequence[Column], world: World, console: Console) -> None:
    """Print the table, and below it what it does not say by itself."""
    first = found.rows[0]
    tables = f", {found.mixed_games} mixed tables" if found.mixed_games else ""
    games = f"{first['games']} games{letters_text(first)} each{tables}"
    title = f"{world.opposition(found.against)}, {games}, to {first['until_year']}"
    console.print()
    console.print(Text(title, style="bold"))
    rated = ["rating"] if found.mixed_games else []
    table = new_table("player", *rated, *(each.heading for each in shown))
    table.padding = 0  # the lines between columns are gap enough for 80 characters
    for row in found.rows:
        cells = [_rating(row)] if rated else []
        table.add_row(plain(row["checkpoint"]), *cells, *(_cell(row, each) for each in shown))
    for number, row in enumerate(found.published):
        if not number:
            table.add_section()
        name = row["checkpoint"] + (", published" if row["comparable"] else ", not comparable")
        cells = [""] if rated else []
        table.add_row(plain(name), *cells, *(_cell(row, each) for each in shown), style="dim")
    console.print(table)
    for neighbour in found.neighbours:
        console.print(Text(neighbour_text(neighbour)))
    for note in filter(None, (NOTE, scale_text(found), *map(_published_note, found.published))):
        print_note(console, note)


def _cell(row: Mapping[str, Any], column: Column) -> str:
    measure = column.measure
    value, interval = row[measure.row_name], row[f"{measure.row_name}_ci95"]
    if value is None:
        return "-"
    if measure.kind == "share":
        text, ends = f"{100 * value:.1f}%", [f"{100 * end:.0f}" for end in interval or ()]
    elif measure.digits == 3:
        text, ends = f"{value:.3f}", [f"{end:.2f}".removeprefix("0") for end in interval or ()]
    else:
        text, ends = f"{value:.2f}", [f"{end:.1f}" for end in interval or ()]
    return f"{text}\n{'-'.join(ends)}" if ends else text


def _rating(row: Mapping[str, Any]) -> str:
    if row["rating_ci95"] is None:
        return f"{row['rating']:.0f}\nfixed"
    return f"{row['rating']:.0f}\n" + "-".join(f"{end:.0f}" for end in row["rating_ci95"])


def _published_note(row: Mapping[str, Any]) -> str:
    games = "" if row["games"] is None else f", {row['games']} games"
    why = "" if row["comparable"] else f" Not comparable with these games: {row['why_not']}."
    return f"{row['checkpoint']}: {row['source']}{games}; {row['definition']}.{why}"
