"""What a sample earned: one return an episode, or discounted returns-to-go of every turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from grpo_core.types import Episode, FloatArray, Turn


def returns_to_go(turns: Sequence[Turn], discount: float) -> FloatArray:
    """``G_t = r_t + discount ** elapsed_phases_t * G_{t+1}`` of every turn; shape (turns,).

    ``r_t`` already holds everything the seat earned until its next decision, and the discount's clock is the
    game's phases, not the seat's decisions: a phase without a decision counts as much as one with.

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


def sample_returns(
    episodes: Sequence[Episode], returns: Literal["episode", "per_phase"], discount: float
) -> FloatArray:
    """Returns of a batch's samples: (episodes,) or, for ``"per_phase"``, (turns,) in episode order."""
    if returns == "episode":
        return np.array([episode.reward for episode in episodes], np.float32)
    parts = [returns_to_go(episode.turns, discount) for episode in episodes]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)
