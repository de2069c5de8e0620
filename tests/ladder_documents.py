"""Documents of a ladder, as ``entente ladder --json`` writes them, without a game."""

from __future__ import annotations

from typing import Any

from cluster.evaluation.ladder.columns import columns
from cluster.evaluation.ladder.document import ladder_document
from cluster.evaluation.ladder.ladder import Ladder
from cluster.evaluation.ladder.published import published_rows
from services.environments.diplomacy.ending import TO_THE_END
from services.environments.diplomacy.measures.definitions import EVALUATED

EVIL = "<img src=x onerror=alert(1)>"


def ladder_row(place: int, name: str, rating: float | None, **more: Any) -> dict[str, Any]:
    """A row whose shares are 0.2, 0.1, 0.3 and so on, with intervals."""
    row: dict[str, Any] = {"place": place, "checkpoint": name, "version": None, "against": "dumbbot", "games": 140}
    row |= {"until_year": str(TO_THE_END), "rating": rating, "rating_fixed": name == "random"}
    row["rating_ci95"] = None if rating is None or name == "random" else [rating - 40, rating + 40]
    figures = {"solo_rate": 0.2, "lead_without_solo_rate": 0.1, "lead_rate": 0.3, "lead_rate_ties_split": 0.275}
    for measure, value in (figures | {"survival_rate": 0.9, "sum_of_squares": 0.25, "mean_centers": 6.5}).items():
        row |= {measure: value, f"{measure}_ci95": [value * 0.8, value * 1.1]}
    return {**row, "definitions": {"solo_rate": "share of games won with 18 centres"}, **more}


def document(*, rated: bool = True, **more: Any) -> dict[str, Any]:
    """A ladder of three players, one of whose names is HTML."""
    ratings = (1517.0, 1100.0, 1000.0) if rated else (None, None, None)
    names = ("greedy", EVIL, "random")
    rows = [ladder_row(place, name, rating) for place, (name, rating) in enumerate(zip(names, ratings, strict=True), 1)]
    neighbour = {"measure": "mean_rank", "verdict": "clear", "p_value_corrected": 0.0001, "against": "mixed tables"}
    neighbour |= {"difference": -1.0, "difference_ci95": [-1.5, -0.5], "higher": "greedy", "lower": EVIL}
    alike = {**neighbour, "verdict": "not significant", "p_value_corrected": 1.0, "higher": EVIL, "lower": "random"}
    found = Ladder(
        against="dumbbot",
        rows=rows,
        published=published_rows("dumbbot", TO_THE_END),
        neighbours=[neighbour, alike],
        differences=[],
        fixed="random" if rated else None,
        mixed_games=91 if rated else 0,
    )
    shown = columns(EVALUATED)
    facts = {"until_year": str(TO_THE_END)}
    made = ladder_document(found, shown, facts, seed=0, command="entente ladder", commit="0123456789ab")
    return {**made, **more}
