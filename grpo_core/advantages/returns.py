"""Returns of samples: one an episode, or for every turn the rewards that follow in the game or in its segment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from grpo_core.advantages.grouping import SEGMENT_FACT, Sample, fact_of
from grpo_core.errors import GroupingError
from grpo_core.types import Episode, FloatArray, Turn

EXPECTED_RETURN_FACT = "expected_return"


def returns_to_go(turns: Sequence[Turn], discount: float) -> FloatArray:
    """``G_t = r_t + discount ** elapsed_phases_t * G_{t+1}`` of every turn; shape (turns,).

    ``r_t`` is everything the seat earned until its next decision. The discount counts the game's phases, with or
    without a decision of the seat.

    Raises:
        ValueError: a turn's ``elapsed_phases`` is negative.
    """
    out = np.zeros(len(turns), np.float64)
    following = 0.0
    for index in range(len(turns) - 1, -1, -1):
        turn = turns[index]
        if turn.elapsed_phases < 0:
            raise ValueError(f"turn {index} ({turn.phase}) has elapsed_phases {turn.elapsed_phases}; it counts from 0")
        following = turn.reward + discount**turn.elapsed_phases * following
        out[index] = following
    return out.astype(np.float32)


def segment_returns(turns: Sequence[Turn]) -> FloatArray:
    """Rewards from each turn to the last one of its segment (opening, midgame, endgame), undiscounted; shape (turns,).

    Raises:
        GroupingError: a turn's keys lack ``segment``.
    """
    out = np.zeros(len(turns), np.float64)
    following = 0.0
    for index in range(len(turns) - 1, -1, -1):
        segments = [turn.keys.get(SEGMENT_FACT) for turn in turns[index : index + 2]]
        if None in segments:
            raise GroupingError(f"segment returns need the fact {SEGMENT_FACT!r}, which turn {index} does not have")
        following = turns[index].reward + (following if len(set(segments)) == 1 else 0.0)
        out[index] = following
    return out.astype(np.float32)


def sample_returns(
    episodes: Sequence[Episode], returns: Literal["episode", "per_phase", "segment"], discount: float
) -> FloatArray:
    """Returns of a batch's samples: (episodes,) or, for the other two, (turns,) in episode order.

    ``discount`` is that of per-phase returns.
    """
    if returns == "episode":
        return np.array([episode.reward for episode in episodes], np.float32)
    parts = [
        segment_returns(episode.turns) if returns == "segment" else returns_to_go(episode.turns, discount)
        for episode in episodes
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def opponent_adjusted(returns: FloatArray, samples: Sequence[Sample]) -> FloatArray:
    """Returns (samples,) less what the line-up's ratings predicted before the game, the fact ``expected_return``.

    A function of what was known before acting leaves the gradient unbiased; this one removes the opponents' strength.

    Raises:
        GroupingError: a sample lacks the prediction, or it is not a finite number.
    """
    expected = [fact_of(sample, EXPECTED_RETURN_FACT, "grouping.opponent_adjusted") for sample in samples]
    wrong = [value for value in expected if isinstance(value, str) or not math.isfinite(value)]
    if wrong:
        raise GroupingError(
            f"the fact {EXPECTED_RETURN_FACT!r} of an episode is {wrong[0]!r}; it is a return, a finite number"
        )
    adjusted: FloatArray = (returns.astype(np.float64) - np.asarray(expected, np.float64)).astype(np.float32)
    return adjusted
