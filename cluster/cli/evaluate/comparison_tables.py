"""The comparison of players as tables: players by measures, players by countries, and what each pair differs in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from cluster.cli.evaluate.tables import letters_text, signed
from cluster.cli.tables import new_table, plain, print_note
from cluster.evaluation.figures.comparison import COMPARED, MIXED, Comparison
from grpo_core.types import Measure
from services.environments.environment import World

NARROW = 9  # characters of a country's column
NOTE = (
    "Intervals are of 95 %. p is corrected for all comparisons of a table (Holm). n.s.: not significant: chance alone "
    "may explain the difference. better: how often the first of the pair has the better result at the same table, ties "
    "half."
)


def print_comparison(found: Comparison, world: World) -> None:
    """Print all tables; the players come in the order of their main measure."""
    console = Console()
    measures = {measure.row_name: measure for measure in world.measures}
    for against in dict.fromkeys(row["against"] for row in found.rows):
        rows = [row for row in found.rows if row["against"] == against]
        rows.sort(key=lambda row: -(row[COMPARED[0]] or 0.0))
        games = "games" if rows[0]["games"] == rows[-1]["games"] else "games or fewer"
        most = max(row["games"] for row in rows)
        opposition = MIXED if against == MIXED else world.opposition(against)
        console.print()
        console.print(
            Text(f"{opposition}, {most} {games}{letters_text(rows[0])} each, to {rows[0]['until_year']}", style="bold")
        )
        console.print(_by_measure(rows, measures))
        console.print(_by_country(rows, measures[COMPARED[1]], world))
        pairs = [row for row in found.differences if row["against"] == against]
        console.print(_by_pair(pairs, measures))
    print_note(console, NOTE)


def _by_measure(rows: Sequence[Mapping[str, Any]], measures: Mapping[str, Measure]) -> Any:
    table = new_table("player", *(measures[name].heading for name in COMPARED))
    for row in rows:
        table.add_row(plain(row["checkpoint"]), *(_cell(row, measures[name]) for name in COMPARED))
    return table


def _by_country(rows: Sequence[Mapping[str, Any]], measure: Measure, world: World) -> Any:
    table = new_table(measure.heading, *(role.capitalize()[:NARROW] for role in world.roles))
    for row in rows:
        cells = row[f"by_{world.role_name}"]
        table.add_row(
            plain(row["checkpoint"]), *(_value(cells[role][measure.row_name], measure) for role in world.roles)
        )
    return table


def _by_pair(pairs: Sequence[Mapping[str, Any]], measures: Mapping[str, Measure]) -> Any:
    table = new_table("pair", "measure", "difference", "95 %", "p", "better")
    shown = ""
    for row in pairs:
        name = f"{row['player']} - {row['compared_with']}"
        measure, interval = measures[row["measure"]], row["difference_ci95"]
        chance = row.get("probability_of_improvement")
        table.add_row(
            plain(name if name != shown else ""),
            measure.heading,
            "no data" if row["difference"] is None else signed(row["difference"], measure.kind),
            "" if interval is None else ", ".join(signed(end, measure.kind) for end in interval),
            _p_text(row["p_value_corrected"]) if row["significant"] else "n.s.",
            "" if chance is None else f"{chance:.0%}",
        )
        shown = name
    return table


def _cell(row: Mapping[str, Any], measure: Measure) -> str:
    interval = row[f"{measure.row_name}_ci95"]
    value = _value(row[measure.row_name], measure)
    if interval is None:
        return value
    ends = (f"{100 * end:.0f}" if measure.kind == "share" else _value(end, measure) for end in interval)
    return f"{value}\n{' - '.join(ends)}"


def _p_text(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _value(value: float | None, measure: Measure) -> str:
    return "no data" if value is None else measure.shown(value)
