"""Means over the samples of other episodes (the turns of one are correlated), and counts of episodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def means_of_other_episodes(
    values_N: NDArray[np.float64], label_N: NDArray[np.integer], episode_N: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return each sample's mean over its group's (``label_N``) samples from other episodes, and their number.

    The mean is 0 if there are none.
    """
    _, group_N = np.unique(label_N, return_inverse=True)
    _, owner_N = np.unique(episode_N, return_inverse=True)
    _, part_N = np.unique(group_N * (owner_N.max(initial=0) + 1) + owner_N, return_inverse=True)
    count_N = np.bincount(group_N)[group_N] - np.bincount(part_N)[part_N]
    total_N = np.bincount(group_N, values_N)[group_N] - np.bincount(part_N, values_N)[part_N]
    return np.where(count_N > 0, total_N / np.maximum(count_N, 1), 0.0), count_N


def episodes_in_group(label_N: NDArray[np.integer], episode_N: NDArray[np.integer]) -> NDArray[np.int64]:
    """Count the episodes in each sample's group (``label_N``), its own included; shape (N,)."""
    _, group_N = np.unique(label_N, return_inverse=True)
    pairs = np.unique(np.stack([group_N, episode_N]), axis=1)
    return np.bincount(pairs[0])[group_N]
