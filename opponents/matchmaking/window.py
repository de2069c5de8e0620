"""Opponents of about the learner's own rating."""

from __future__ import annotations

import numpy as np

from opponents.matchmaking.weights import Weights

NEAREST = 3  # members that may be drawn however far from the learner they are


def rating_window(ratings: Weights, own: float, width: float) -> Weights:
    """1 for members within ``width`` of ``own`` and for the nearest three (and whoever ties with them), else 0."""
    distances = np.abs(ratings - own)
    within = max(width, float(np.sort(distances)[:NEAREST][-1]))
    return np.where(distances <= within, 1.0, 0.0)
