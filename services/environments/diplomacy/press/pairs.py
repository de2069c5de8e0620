"""What a game with press leaves of a power and each other one: figures of its episode, and measures of them."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_core.types import PairMeasure
from services.environments.diplomacy.press.conduct import ConductLog, Pair

_KEPT_TO, _TO = "promises_kept_to", "promises_to"
_KEPT_BY, _BY = "promises_kept_by", "promises_by"
_ALLIED, _TOGETHER = "years_allied_with", "years_with"

PAIR_MEASURES = (
    PairMeasure(
        "promises_kept", _KEPT_TO, _TO, "Promises it keeps",
        "share of its promises to a partner that it kept, of those that could be broken",
    ),
    PairMeasure(
        "partners_promises_kept", _KEPT_BY, _BY, "Promises that are kept to it",
        "share of a partner's promises to it that were kept, of those that could be broken",
    ),
    PairMeasure(
        "allied", _ALLIED, _TOGETHER, "Years allied",
        "share of the years at whose end it and a partner, both still there, were allied",
    ),
)  # fmt: skip


def pair_figures(
    conduct: ConductLog, allied: Mapping[Pair, int], years: Mapping[Pair, int], power: str
) -> dict[str, float]:
    """The outcomes of ``PAIR_MEASURES`` of one power, by other power; without what did not occur.

    ``years`` are those at whose end both powers were there, and ``allied`` those of them in which they were allied.
    """
    counts: dict[str, int] = {}
    for (giver, partner), own in conduct.pairs.items():
        for acting, other, kept, tested in ((giver, partner, _KEPT_TO, _TO), (partner, giver, _KEPT_BY, _BY)):
            if acting == power:
                counts[f"{kept}/{other}"] = own.promises_kept
                counts[f"{tested}/{other}"] = own.promises_kept + own.promises_broken
    for (one, other), count in years.items():
        if one == power:
            counts[f"{_ALLIED}/{other}"] = allied.get((one, other), 0)
            counts[f"{_TOGETHER}/{other}"] = count
    return {name: float(count) for name, count in counts.items() if count}
