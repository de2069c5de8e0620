"""Generalised advantages of single steps, from a critic's values (Schulman et al., arXiv 1506.02438)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from grpo_core.types import Turn


def generalised_advantages(
    turns: Sequence[Turn], values: NDArray[np.float64], last: float, discount: float, decay: float
) -> NDArray[np.float64]:
    """``A_t = d_t + g_t decay A_{t+1}`` of every turn of an episode, shape (turns,).

    ``d_t = r_t + g_t V_{t+1} - V_t`` is the surprise of a step, and ``g_t = discount ** elapsed_phases_t``. With a
    decay of 1 the advantage is the discounted return less ``V_t``, with 0 it is the surprise alone.

    Args:
        turns: in order; their rewards and elapsed phases count.
        values: (turns,) what the critic says of the states before the turns.
        last: what it says of the state after the last one; 0 where the episode is over.
        discount: in (0, 1], a phase.
        decay: lambda, in [0, 1].
    """
    found = np.zeros(len(turns))
    following, worth = 0.0, last
    for place in range(len(turns) - 1, -1, -1):
        turn = turns[place]
        factor = discount**turn.elapsed_phases
        following = turn.reward + factor * worth - values[place] + factor * decay * following
        found[place], worth = following, float(values[place])
    return found
