"""The measures of a ladder, with the names under which others publish them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grpo_core.types import Measure
from services.environments.diplomacy.measures.definitions import COMPARABLE


@dataclass(frozen=True, slots=True)
class Column:
    """One measure of the table."""

    measure: Measure
    heading: str  # short enough for eight of them in 80 columns
    published_as: str  # what others call it; "": it is not published under a name of its own


# Name in rows -> heading. ``lead_rate`` is the sum of the two before it by definition.
_HEADINGS = {
    "solo_rate": "solos",
    "lead_without_solo_rate": "most SC",
    "lead_rate": "leads",
    "lead_rate_ties_split": "split",
    "survival_rate": "survives",
    "sum_of_squares": "squares",
    "mean_centers": "centres",
}
_OTHERS = {**COMPARABLE, "lead_rate": f"DipNet's win and most SC together; {COMPARABLE['lead_rate']}"}
NAMES = tuple(_HEADINGS)


def columns(measures: Sequence[Measure]) -> list[Column]:
    """The columns of the table, from the measures of the games."""
    by_name = {measure.row_name: measure for measure in measures}
    return [Column(by_name[name], heading, _OTHERS.get(name, "")) for name, heading in _HEADINGS.items()]
