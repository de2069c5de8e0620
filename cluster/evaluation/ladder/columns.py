"""The measures of a ladder, with the names under which others publish them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grpo_core.types import Measure


@dataclass(frozen=True, slots=True)
class Column:
    """One measure of the table."""

    measure: Measure
    heading: str  # short enough for eight of them in 80 columns
    published_as: str  # what others call it; "": it is not published under a name of its own


# Name in rows -> (heading, others' name). ``lead_rate`` is the sum of the two before it by definition.
_COLUMNS = {
    "solo_rate": ("solos", "DipNet's win"),
    "lead_without_solo_rate": ("most SC", "DipNet's most SC"),
    "lead_rate": ("leads", "DipNet's win and most SC together; Glick's win, which is rank 1"),
    "lead_rate_ties_split": ("split", ""),
    "survival_rate": ("survives", ""),
    "sum_of_squares": ("squares", "Meta's score from DORA to Cicero"),
    "mean_centers": ("centres", ""),
}
NAMES = tuple(_COLUMNS)


def columns(measures: Sequence[Measure]) -> list[Column]:
    """The columns of the table, from the measures of the games."""
    by_name = {measure.row_name: measure for measure in measures}
    return [Column(by_name[name], heading, others) for name, (heading, others) in _COLUMNS.items()]
