"""The measures of an evaluation by name: each with its definition, and whose figures it can be put beside."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from grpo_core.types import Measure
from services.environments.diplomacy.position import CENTERS_TO_WIN, POWERS

_ORDERS = "of the orders of its units in movement phases"


def _mean(name: str, outcome: str, title: str, text: str, low: float = 0.0, high: float = 1.0, **more: Any) -> Measure:
    return Measure(name, outcome, title, text, "mean", low, high, **more)


def _share(name: str, outcome: str, title: str, text: str, **more: Any) -> Measure:
    return Measure(name, outcome, title, text, "share", **more)


CENTERS = 34.0  # of the map
TRAINED = (  # of training and its evaluations
    Measure(
        "centers", "centers", "Centres", "mean final centres", "mean", 0.0, CENTERS, "centers",
        column="mean_centers", value="final supply centres", phrase="{} centres", goal=CENTERS_TO_WIN,
        even=CENTERS / len(POWERS),
        even_note="of 34 centres that each of seven equal players holds once all are owned",
        even_row="34 / 7 centres once all are owned",
    ),
    Measure("win_rate", "solo", "Solos", "share of solos", "share", phrase="solos {}"),
    Measure(
        "top_rate", "top", "Games led, ties included", "share of games led, ties included", "share", header="leads",
        phrase="leads {}", note="Leads: games at whose end no power had more centres; ties count as leads.",
    ),
    Measure(
        "survival_rate", "survived", "Survival", "share of games survived", "share", header="survives",
        phrase="survived {}",
    ),
    Measure(
        "sum_of_squares", "sum_of_squares", "Squares", "share of the squared centres, 1 for a solo", "mean",
        note="Squares: the share of squared centres, 1 for a solo.", even=1 / len(POWERS),
        even_row="1/7 of the squared ones", only_evaluated=True,
    ),
)  # fmt: skip
RESULTS = (
    _mean("mean_centers", "centers", "Centres", "mean supply centres at the end", high=34.0, unit="centers"),
    _share("solo_rate", "solo", "Solos", "share of games won with 18 centres"),
    _share(
        "lead_without_solo_rate", "top_without_solo", "Leads without solo",
        "share of games that it did not win alone and at whose end no power had more centres, ties included",
    ),
    _share(
        "lead_rate", "top", "Leads", "share of games at whose end no power had more centres, solos and ties included"
    ),
    _mean(
        "lead_rate_ties_split", "top_split", "Leads, ties split",
        "mean share of the lead: 1 alone, 1/k where k powers tie; 1/7 among equals",
    ),
    _share("tied_lead_rate", "top_tied", "Tied leads", "share of games whose lead it shared"),
    _share("survival_rate", "survived", "Survival", "share of games at whose end it owned a centre", header="survives"),
    _share("defeat_rate", "defeated", "Defeats", "share of games at whose end it owned no centre"),
    _share(
        "draw_rate", "draw", "Draws",
        "share of games that were a draw with it; a game that its last year cut off is none",
    ),
    _mean(
        "mean_rank", "rank", "Rank",
        "mean rank by centres, 1 to 7; the later eliminated come first, ties share the mean of their ranks",
        low=1.0, high=7.0,
    ),
    _mean(
        "sum_of_squares", "sum_of_squares", "Squares",
        "mean of n^2 / sum n^2 of the centres at the end; a solo takes all", header="squares",
    ),
)  # fmt: skip
ORDERS = (
    _mean(
        "legal_order_share", "legal_order_share", "Legal orders",
        "share of the orders it wrote that were legal as written, mean over games; 1 where it wrote none",
    ),
    _mean("hold_share", "hold_share", "Holds", f"share {_ORDERS} that hold, units without an order included"),
    _mean("support_share", "support_share", "Supports", f"share {_ORDERS} that are supports"),
    _mean(
        "foreign_support_share", "foreign_support_share", "Supports of others",
        f"share {_ORDERS} that support another power's unit",
    ),
    _mean(
        "supports_received", "supports_received", "Supports received",
        "supports of its units by any power that counted, for each order of its units in movement phases", high=33.0,
    ),
    _mean(
        "effective_support_share", "effective_support_share", "Effective supports",
        f"share {_ORDERS} that are supports without which units would stand elsewhere",
    ),
    _mean(
        "effective_foreign_support_share", "effective_foreign_support_share", "Effective supports of others",
        f"share {_ORDERS} that are such supports of another power's unit",
    ),
    _mean("convoy_share", "convoy_share", "Convoys", f"share {_ORDERS} that are convoys by its fleets"),
)  # fmt: skip
IN_RUNS = (  # by their names in summary.json
    _share("win_rate", "solo", "Solos", "solo_rate, by its name in summary.json"),
    _share("top_rate", "top", "Leads", "lead_rate, by its name in summary.json"),
)
_PHASE = "a movement phase in which it had units"
PRESS_MEASURES = (  # of games with press
    _mean("letters", "letters", "Letters", f"letters it sent, {_PHASE}", high=inf),
    _mean("promises", "promises", "Promises", "promises it gave that could be broken", high=inf),
    _mean("promises_broken", "promises_broken", "Promises broken", "promises it gave and broke", high=inf),
    _mean(
        "honesty", "honesty", "Honesty", "share of all promises it gave that it kept; none where it gave none",
        weight="promises",
    ),
    _mean(
        "partners_promises", "partners_promises", "Promises of partners", "promises to it that could be broken",
        high=inf,
    ),
    _mean(
        "partners_honesty", "partners_honesty", "Honesty of partners",
        "share of all promises to it that others kept; none where there were none", weight="partners_promises",
    ),
    _mean(
        "cross_supports", "cross_supports", "Cross-supports",
        f"its orders that support or convoy another power's unit, {_PHASE}", high=inf,
    ),
    _mean(
        "cross_supports_received", "cross_supports_received", "Cross-supports received",
        f"others' orders that support or convoy its units, {_PHASE}", high=inf,
    ),
    _mean(
        "effective_cross_supports", "effective_cross_supports", "Effective cross-supports",
        f"its supports of others without which units would stand elsewhere, {_PHASE}", high=inf,
    ),
    _mean(
        "effective_cross_supports_received", "effective_cross_supports_received", "Effective cross-supports received",
        f"such supports by others of its units, {_PHASE}", high=inf,
    ),
    _mean(
        "attacks", "attacks", "Attacks",
        f"its orders against a power's unit or centre, summed over powers, {_PHASE}", high=inf,
    ),
    _mean(
        "attacks_received", "attacks_received", "Attacks received",
        f"others' orders against its units or centres, {_PHASE}", high=inf,
    ),
)  # fmt: skip
EVALUATED = (*RESULTS, *ORDERS, *IN_RUNS)

# What others publish under another name. They end games otherwise, so a comparison also needs the row's ``until_year``.
COMPARABLE: Mapping[str, str] = {
    "solo_rate": "DipNet's win",
    "lead_without_solo_rate": "DipNet's most SC",
    "lead_rate": "Glick's win, which is rank 1 after five years",
    "defeat_rate": "DipNet's defeated",
    "sum_of_squares": "Meta's score from DORA to Cicero, where games are played to the end",
    "foreign_support_share": "X-support, once divided by support_share",
    "effective_foreign_support_share": "effective X-support, once divided by support_share",
}


def definition(measure: Measure) -> str:
    """What a measure is, and what others call it."""
    others = COMPARABLE.get(measure.row_name)
    return measure.text + (f" (compare {others})" if others else "")
