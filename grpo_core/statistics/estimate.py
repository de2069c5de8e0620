"""An estimate with its interval, and the difference of two independent ones.

No interval leaves the range that its quantity can have. A rate has a score interval, which stays inside by itself. A
mean of bounded values has Student's interval, cut at the bounds: the true mean lies between them, so the part that is
cut off never held it, and the coverage stays what it was. A difference of means is inside if they are (``difference``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from grpo_core.statistics.quantiles import LEVEL, two_sided_quantile

Range = tuple[float, float]  # least and largest value that a quantity can have
UNBOUNDED: Range = (-math.inf, math.inf)
CENTERS: Range = (0.0, 34.0)  # of one power
SHARE: Range = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A point estimate and its interval; ``low`` and ``high`` are None where the data give no interval.

    The interval has the level that its estimator was asked for, 95% by default.
    """

    mean: float
    low: float | None
    high: float | None
    n: int  # observations behind it

    @property
    def interval(self) -> tuple[float, float] | None:
        """``(low, high)``, or None."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def excludes(self, value: float) -> bool:
        """Whether there is an interval, and ``value`` lies outside."""
        return self.interval is not None and not self.interval[0] <= value <= self.interval[1]


def student_estimate(
    mean: float, squared: float, freedom: float, n: int, within: Range = UNBOUNDED, level: float = LEVEL
) -> Estimate:
    """Return a mean of ``squared`` standard error with Student's interval (Student, Biometrika 6, 1908) ``within``."""
    half = two_sided_quantile(level, freedom) * math.sqrt(squared)
    return Estimate(mean, max(within[0], mean - half), min(within[1], mean + half), n)


def difference(before: Estimate, after: Estimate, *, correlation: float = 0.0) -> Estimate:
    """Return ``after - before``, without an interval where one of them has none; it has the level of both intervals.

    The interval takes each side's distance from the means to the ends that lie there: MOVER (Zou and Donner, Statistics
    in Medicine 27, 2008). For symmetric ends it is the usual one. ``correlation`` of the two estimates, in [-1, 1], is
    0 for independent ones. The interval never reaches beyond the differences of the ends, so it stays within the
    possible range if both intervals do.
    """
    mean, n = after.mean - before.mean, before.n + after.n
    if before.low is None or before.high is None or after.low is None or after.high is None:
        return Estimate(mean, None, None, n)
    below = _joined(after.mean - after.low, before.high - before.mean, correlation)
    above = _joined(after.high - after.mean, before.mean - before.low, correlation)
    return Estimate(mean, mean - below, mean + above, n)


def _joined(one: float, other: float, correlation: float) -> float:
    if correlation == 0:
        return math.hypot(one, other)
    return math.sqrt(max(0.0, one * one + other * other - 2 * correlation * one * other))
