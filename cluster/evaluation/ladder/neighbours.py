"""Which neighbours on a ladder are more than chance apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

# The measure that neighbours are compared by: finishing places where these make the ratings, else what sorts the rows.
RATED_BY, SORTED_BY = "mean_rank", "sum_of_squares"
CLEAR, UNCLEAR, REVERSED = "clear", "not significant", "reversed"


def neighbours(order: Sequence[str], differences: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each player and the next one below it; ``order`` are the names, from the highest.

    ``differences`` has every pair once, in one measure, as ``paired_differences`` and ``mixed_differences`` return it.
    Its p-values are corrected for all pairs (Holm), because only the results say which pairs are neighbours. The
    ``verdict`` is ``CLEAR`` if the higher one is significantly better in this measure, and ``REVERSED`` if the lower
    one is.
    """
    by_pair = {(row["player"], row["compared_with"]): row for row in differences}
    found = []
    for higher, lower in pairwise(order):
        turned = (higher, lower) not in by_pair
        row = by_pair[(lower, higher) if turned else (higher, lower)]
        difference, interval = row["difference"], row["difference_ci95"]
        if turned:
            difference = None if difference is None else -difference
            interval = None if interval is None else [-interval[1], -interval[0]]
        found.append(
            {
                "higher": higher,
                "lower": lower,
                "against": row["against"],
                "measure": row["measure"],
                "difference": difference,
                "difference_ci95": interval,
                "p_value_corrected": row["p_value_corrected"],
                "verdict": _verdict(row, difference),
            }
        )
    return found


def _verdict(row: Mapping[str, Any], difference: float | None) -> str:
    if not row["significant"] or not difference:
        return UNCLEAR
    is_better = difference < 0 if row["measure"] == RATED_BY else difference > 0  # the first rank is the best
    return CLEAR if is_better else REVERSED


def neighbour_text(row: Mapping[str, Any]) -> str:
    """One line about two neighbours."""
    higher, lower = row["higher"], row["lower"]
    what = "finishing places" if row["measure"] == RATED_BY else "squares"
    match row["verdict"]:
        case "clear":
            return f"{higher} is above {lower} (corrected p {p_text(row['p_value_corrected'])})"
        case "reversed":
            return f"{higher} and {lower}: the {what} say the opposite (corrected p {p_text(row['p_value_corrected'])})"
    return f"{higher} and {lower} are not significantly different"


def p_text(p: float) -> str:
    """A p-value after its letter: ``= 0.012``, ``< 0.001``."""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"
