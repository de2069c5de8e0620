"""The rewards of a seat: named parts, per phase and at the end, weighted by the configuration."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from grpo_core.errors import one_line
from services.environments.diplomacy.scoring import shares
from services.environments.diplomacy.scoring.shares import Outcome
from services.environments.playing import TALK_PARTS

# The first three: ``press/rewards.py``; the others: ``opponents/listening/talk_credit.py``.
PRESS_PARTS = ("honesty", "cooperation", "joint_outcome", *TALK_PARTS)
PHASE_PARTS = ("center_change", "format", *PRESS_PARTS)
FINAL_PARTS = ("centers", "sum_of_squares", "draw_size", "proportional", "survival", "win", "dipnet")
PARTS = (*PHASE_PARTS, *FINAL_PARTS)

LARGEST_WEIGHT = 1e6  # returns stay finite

# DipNet's reward for reinforcement learning (Paquette et al. 2019, arXiv 1909.02128): the mean of the centres gained or
# lost per phase and of 34 final points, which a solo takes and which are otherwise shared by centres.
DIPNET_WEIGHTS = {"center_change": 0.5, "dipnet": 0.5}


def phase_parts(before: int, after: int) -> dict[str, float]:
    """Return the parts of one decision from the centres owned then and at the next one (or at the game's end)."""
    return {"center_change": float(after - before)}


def final_parts(outcome: Outcome, power: str) -> dict[str, float]:
    """Return the parts that are paid at the end of the game.

    centers: count, 0 to 34. sum_of_squares, draw_size, proportional: shares, 0 to 1 (see ``shares``).
    survival: 1 with a centre at the end. win: 1 for a solo. dipnet: 0 to 34, see ``DIPNET_WEIGHTS``.
    """
    centers = outcome.centers
    solo = outcome.solo
    drawn = outcome.winners if outcome.kind == "draw" else None
    proportional = shares.proportional(centers)[power]
    won = float(solo == power)
    return {
        "centers": float(centers[power]),
        "sum_of_squares": shares.sum_of_squares(centers, solo)[power],
        "draw_size": shares.draw_size(centers, solo, drawn)[power],
        "proportional": proportional,
        "survival": float(centers[power] > 0),
        "win": won,
        "dipnet": 34 * (proportional if solo is None else won),
    }


def check_weights(weights: Mapping[str, float]) -> None:
    """Raise ``ValueError`` for an unknown part (naming the nearest), a weight not finite, or no weight."""
    for name, weight in weights.items():
        if name not in PARTS:
            near = difflib.get_close_matches(name[:60], PARTS, n=1, cutoff=0.0)[0]
            raise ValueError(
                f"unknown reward part {one_line(repr(name), 80)}; did you mean {near!r}? Parts are: {', '.join(PARTS)}"
            )
        if not abs(weight) <= LARGEST_WEIGHT:  # NaN is not either
            raise ValueError(
                f"the weight of reward part {name!r} must be a finite number, at most {LARGEST_WEIGHT:g}, not {weight}"
            )
    if not any(weights.values()):
        raise ValueError(f"every reward would be 0: give a weight to one of {', '.join(PARTS)}")
