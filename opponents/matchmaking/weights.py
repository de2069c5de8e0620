"""Weights of a draw, as plain arrays: everybody alike, the newest alone, and a floor under all of them.

Arrays have one entry for each of the N members that may be drawn. Weights are >= 0 with a sum above 0.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float64]


def uniform(count: int) -> Weights:
    """Everybody alike, (N,)."""
    return np.ones(count)


def newest(versions: Sequence[int | None], otherwise: Weights) -> Weights:
    """The highest version alone; None is no snapshot. Without any, ``otherwise``."""
    known = [version for version in versions if version is not None]
    if not known:
        return otherwise
    return np.array([float(version == max(known)) for version in versions])


def with_floor(weights: Weights, floor: float) -> Weights:
    """Probabilities proportional to the weights, but none below ``floor`` (or 1 / N, where that is less).

    Each gets the floor, and the weights share out the rest, so their order stays.
    """
    count = len(weights)
    least = min(floor, 1 / count)
    total = weights.sum()
    shares = weights / total if total > 0 else np.full(count, 1 / count)
    return least + (1 - count * least) * shares


def draw_index(weights: Sequence[float] | Weights, seed: int) -> int:
    """One of N with probability proportional to its weight; ``seed`` is in [0, 2**63)."""
    bounds = list(itertools.accumulate(float(weight) for weight in weights))
    point = seed / 2**63 * bounds[-1]
    last = bisect.bisect_left(bounds, bounds[-1])  # that has a weight; the point may be rounded up to the end
    return min(bisect.bisect_right(bounds, point), last)
