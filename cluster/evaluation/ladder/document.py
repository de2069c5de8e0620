"""A ladder as plain data: for JSON and the page, and as lines of a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.evaluation.ladder.columns import Column
from cluster.evaluation.ladder.ladder import Ladder
from cluster.evaluation.ladder.neighbours import neighbour_text

RATING_NOTE = "400 points are odds of ten to one to finish above."


def ladder_document(
    found: Ladder, shown: Sequence[Column], facts: Mapping[str, Any], *, seed: int, command: str, commit: str
) -> dict[str, Any]:
    """All that is known, as plain JSON; ``command`` repeats the ladder with the code of ``commit``.

    ``shown`` are the measures of the table, ``facts`` what all rows say of their games.
    """
    rows = [{name: value for name, value in row.items() if name != "definitions"} for row in found.rows]
    definitions = found.rows[0]["definitions"]
    return {
        "against": found.against,
        **facts,
        "seed": seed,
        "command": command,
        "commit": commit,
        "ladder": rows,
        "published": found.published,
        "rating_scale": scale_text(found),
        "mixed_games": found.mixed_games,
        "neighbours": [{**row, "text": neighbour_text(row)} for row in found.neighbours],
        "differences": found.differences,
        "columns": [
            {
                "name": each.measure.row_name,
                "heading": each.heading,
                "kind": each.measure.kind,
                "digits": each.measure.digits,
                "definition": each.measure.text,
                "published_as": each.published_as,
            }
            for each in shown
        ],
        "definitions": dict(definitions),
    }


def scale_text(found: Ladder) -> str:
    """What a rating is measured from, in one or two sentences; "" without ratings."""
    if not found.mixed_games:
        return ""
    if found.fixed is None:
        return f"{RATING_NOTE} No bot of known strength is at the tables, so the mean of these players is 1000."
    (points,) = (row["rating"] for row in found.rows if row["rating_fixed"])
    calibrated = "in games to 1905" + (" without press" if found.rows[0].get("press_rounds") else "")
    return f"{RATING_NOTE} {found.fixed} is fixed at {points:.0f}, as it was calibrated {calibrated}."


def ladder_csv(found: Ladder, shown: Sequence[Column], facts: Sequence[str]) -> str:
    """A line for each player, from the highest, and for each published figure, whose ``source`` says whose it is."""
    names = ["rating", *(each.measure.row_name for each in shown)]
    ends = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    buffer = io.StringIO()
    lines = csv.writer(buffer, lineterminator="\n")
    lines.writerow(["place", "player", "version", "against", *facts, "games", *ends, "source", "comparable"])
    for row in (*found.rows, *found.published):
        head = [row.get(name) for name in ("place", "checkpoint", "version", "against", *facts, "games")]
        figures = [figure for name in names for figure in (row.get(name), *(row.get(f"{name}_ci95") or (None, None)))]
        lines.writerow([*head, *figures, row.get("source", "measured here"), row.get("comparable", True)])
    return buffer.getvalue()
