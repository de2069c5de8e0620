"""Quantiles behind intervals. The level of an interval is the probability, in (0, 1), with which it holds the truth."""

from __future__ import annotations

import math
from statistics import NormalDist

LEVEL = 0.95
_STANDARD_NORMAL = NormalDist()


def two_sided_quantile(level: float = LEVEL, freedom: float = math.inf) -> float:
    """Return how many standard errors an interval of this level reaches to each side, > 0.

    The quantile is that of Student's t with real ``freedom`` > 0, of the standard normal distribution where it is
    infinite.

    Raises ValueError where the level is not inside (0, 1).
    """
    if not 0 < level < 1:
        raise ValueError(f"the level of an interval lies between 0 and 1, not at {level}")
    tail = (1 - level) / 2  # of the lower end: probabilities near 0 have more digits than those near 1
    return -(_STANDARD_NORMAL.inv_cdf(tail) if math.isinf(freedom) else student_t_quantile(tail, freedom))


def two_sided_tail(quantile: float) -> float:
    """Return the probability that a standard normal value is further from 0 than ``quantile`` >= 0."""
    return math.erfc(quantile / math.sqrt(2))


def student_t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t for real degrees of freedom > 0; probability in (0, 1)."""
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # slow to import

    return float(stdtrit(freedom, probability))


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return the quantile of the beta distribution with shapes ``a`` and ``b`` > 0; probability in [0, 1]."""
    from scipy.special import betaincinv

    return float(betaincinv(a, b, probability))
