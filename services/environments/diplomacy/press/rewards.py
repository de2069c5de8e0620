"""Reward parts of a game with press: honesty, help for others, and what partners gain. None counts by default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from services.environments.diplomacy.press.ledger import tested_promises
from services.environments.diplomacy.press.promises import Promise, Verdict, at_peace
from services.environments.diplomacy.rules.movement import Movement


def honesty(verdicts: Iterable[Verdict], power: str) -> float:
    """Minus the number of tested promises that ``power`` broke in a movement phase; kept ones earn nothing."""
    return -float(sum(giver == power and not kept for giver, _, kept in tested_promises(verdicts)))


def cooperation(movement: Movement, power: str) -> float:
    """How many supports of ``power`` counted that were for other powers' units, in a movement phase."""
    return float(
        sum(
            support.power == power
            for place, supports in movement.supports.items()
            if movement.orders[place].power != power
            for support in supports
        )
    )


def joint_outcome(holding: Sequence[Promise], changes: Mapping[str, int], power: str) -> float:
    """The centres gained (or lost) by the powers with which ``power`` has a peace or an alliance, on average.

    ``holding`` are the promises that still hold, ``changes`` the centres that each power gained in a phase.
    """
    partners = at_peace(holding, power)
    return fmean(changes[partner] for partner in partners) if partners else 0.0
