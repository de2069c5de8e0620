"""How many times the mean of one player is that of another. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grpo_core.statistics.estimate import Estimate
from grpo_core.statistics.quantiles import LEVEL

RESAMPLES = 10_000


def ratio_of_means(
    of: Sequence[float],
    to: Sequence[float],
    generator: np.random.Generator,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
) -> Estimate | None:
    """Return the mean of ``of`` over that of ``to``, with the percentile interval of a bootstrap of both.

    Both are drawn with replacement, apart from one another (Efron and Tibshirani, An Introduction to the Bootstrap,
    chapter 13). All values are positive. None where either is empty or a mean is not above 0; without an interval where
    one has fewer than two values.
    """
    if not of or not to:
        return None
    above, below = np.array(of, np.float64), np.array(to, np.float64)
    if below.mean() <= 0 or above.mean() <= 0:
        return None
    ratio = float(above.mean() / below.mean())
    count = len(above) + len(below)
    if min(len(above), len(below)) < 2:
        return Estimate(ratio, None, None, count)
    drawn = [
        values[generator.integers(len(values), size=(resamples, len(values)))].mean(1) for values in (above, below)
    ]
    tail = (1 - level) / 2
    low, high = np.quantile(drawn[0] / drawn[1], (tail, 1 - tail))
    return Estimate(ratio, float(low), float(high), count)
