"""Estimates with their uncertainty: means, means over countries, rates. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A point estimate and its 95% interval; ``low`` and ``high`` are None where data give none."""

    mean: float
    low: float | None
    high: float | None
    n: int  # observations behind it

    @property
    def interval(self) -> tuple[float, float] | None:
        """``(low, high)``, or None."""
        return None if self.low is None or self.high is None else (self.low, self.high)


def mean_interval(values: Sequence[float]) -> Estimate | None:
    """Mean with Student's t interval; None without values, no interval from a single one."""
    if not values:
        return None
    mean = fmean(values)
    if len(values) == 1:
        return Estimate(mean, None, None, 1)
    return _welch(mean, len(values), [(variance(values) / len(values), len(values) - 1)])


def stratified_mean(strata: Mapping[str, Sequence[float]]) -> Estimate | None:
    """Mean over strata (countries) of equal weight, whatever their sizes, with its t interval.

    The variance is the sum of the strata's own squared standard errors over K^2; degrees of freedom by
    Welch and Satterthwaite (Satterthwaite, Biometrics 2, 1946). None where a stratum is empty: the mean
    over the others would be another quantity. No interval where a stratum has a single value.
    """
    if not strata or not all(strata.values()):
        return None
    count = len(strata)
    mean = fmean(fmean(values) for values in strata.values())
    n = sum(map(len, strata.values()))
    if any(len(values) == 1 for values in strata.values()):
        return Estimate(mean, None, None, n)
    parts = [(variance(values) / len(values) / count**2, len(values) - 1) for values in strata.values()]
    return _welch(mean, n, parts)


def _welch(mean: float, n: int, parts: Iterable[tuple[float, int]]) -> Estimate:
    """Combine independent (squared standard error, degrees of freedom) parts of a sum."""
    parts = [part for part in parts if part[0] > 0]
    if not parts:
        return Estimate(mean, mean, mean, n)
    squared = sum(part for part, _ in parts)
    # Scaled by the sum, so that tiny variances do not underflow when squared.
    freedom = 1 / sum((part / squared) ** 2 / df for part, df in parts)
    half = student_t_quantile(0.5 + CONFIDENCE / 2, freedom) * math.sqrt(squared)
    return Estimate(mean, mean - half, mean + half, n)


def wilson_interval(successes: int, trials: int) -> Estimate | None:
    """Rate with Wilson's score interval (Wilson, JASA 22, 1927), inside [0, 1]; None without trials.

    Raises:
        ValueError: successes are negative or more than the trials.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials")
    if trials == 0:
        return None
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    rate = successes / trials
    spread = 1 + z * z / trials
    center = (rate + z * z / (2 * trials)) / spread
    half = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials)) / spread
    low = 0.0 if successes == 0 else center - half
    high = 1.0 if successes == trials else center + half
    return Estimate(rate, low, high, trials)


def student_t_quantile(probability: float, freedom: float) -> float:
    """Quantile of Student's t for real degrees of freedom > 0, to about 1e-10; probability in (0, 1).

    Bisection on the tail written as a regularized incomplete beta function.

    Raises:
        ValueError: an argument out of range.
    """
    if not 0 < probability < 1 or not freedom > 0:
        raise ValueError(f"no t quantile for probability {probability} and {freedom} degrees of freedom")
    if probability == 0.5:
        return 0.0
    if probability < 0.5:
        return -student_t_quantile(1 - probability, freedom)
    low, high = 0.0, 1.0
    while _upper_tail(high, freedom) > 1 - probability:
        low, high = high, high * 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if _upper_tail(middle, freedom) > 1 - probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _upper_tail(t: float, freedom: float) -> float:
    return _regularized_beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2


def _regularized_beta(x: float, a: float, b: float) -> float:
    """I_x(a, b) by its continued fraction (DLMF 8.17.22), evaluated with Lentz's method."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # there the fraction of the mirrored argument converges fast
        return 1 - _regularized_beta(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    fraction, c, d = 1.0, 1.0, 0.0
    for step in range(1, 500):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / (1 + term * d)
        c = 1 + term / c
        fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return math.exp(log_front) / a / fraction
