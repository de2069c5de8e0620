"""The rows of evaluations as texts and as a flat table, in the words of their world's measures."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from grpo_core.types import Measure, RoleMeasures

Cell = str | int | float | None
_NOTHING = "–"
_SAID = {"until_year": " to {}"}  # facts that need no name


def describe(row: Mapping[str, Any], measured: RoleMeasures, facts: Collection[str]) -> str:
    """Format an evaluation as one line: its measures with their intervals, and its games.

    ``facts`` are the names of what the row says about its games.
    """
    said = ", ".join(_said(row, measure) for measure in measured.spoken)
    games = "".join(_SAID.get(name, f", {name} {{}}").format(row[name]) for name in facts)
    return f"{said} ({row['games']} games{games})"


def _said(row: Mapping[str, Any], measure: Measure) -> str:
    value, ends = row[measure.row_name], row[f"{measure.row_name}_ci95"]
    text = measure.said(_NOTHING if value is None else measure.shown(value))
    return text if ends is None else f"{text} {_bounds(ends, measure)}"


def _bounds(ends: Sequence[float], measure: Measure) -> str:
    low, high = ends
    if measure.kind == "share":
        return f"[{100 * low:.0f},{100 * high:.0f}]"
    return f"[{measure.shown(low)}, {measure.shown(high)}]"


def rate_text(row: Mapping[str, Any], name: str) -> str:
    """Format a share and its interval in percent, e.g. ``12% [7,19]``."""
    low, high = row[f"{name}_ci95"]
    return f"{row[name]:.0%} [{100 * low:.0f},{100 * high:.0f}]"


def evaluation_table(
    rows: Sequence[Mapping[str, Any]], measured: RoleMeasures, facts: Collection[str]
) -> tuple[list[str], list[list[Cell]]]:
    """Flatten the evaluations of a summary to columns and rows: all roles together, then each role.

    ``facts`` are the names of what a row says about its games. An interval has the columns ``<measure>_low`` and
    ``<measure>_high``; what was not measured is None.
    """
    names = [measure.row_name for measure in measured.measures]
    columns = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    cells: list[list[Cell]] = []
    for row in rows:
        for role, found in (("all", row), *row[measured.by_role].items()):
            figures: list[Cell] = []
            for name in names:
                bounds = found.get(f"{name}_ci95")
                figures += [found.get(name), *(bounds if bounds is not None and len(bounds) == 2 else (None, None))]
            named = [row["label"], row["checkpoint"], row["against"], *(row.get(fact) for fact in facts), role]
            cells.append([*named, found.get("games"), *figures])
    return ["label", "checkpoint", "against", *facts, measured.role_name, "games", *columns], cells
