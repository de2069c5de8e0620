"""Estimates with their uncertainty: means, means over countries, rates. Pure functions.

No interval leaves the range that its quantity can have. A rate has Wilson's interval, which stays inside by itself. A
mean of bounded values has Student's interval, cut at the bounds: the true mean lies between them, so the part that is
cut off never held it, and the coverage stays what it was. A difference of means is inside if they are (``difference``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance

_UPPER = 0.975  # the quantile of the upper end of a two-sided 95% interval
_Z = NormalDist().inv_cdf(_UPPER)

Range = tuple[float, float]  # least and largest value that a quantity can have
UNBOUNDED: Range = (-math.inf, math.inf)
CENTERS: Range = (0.0, 34.0)  # of one power
SHARE: Range = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A point estimate and its 95% interval; ``low`` and ``high`` are None where the data give no interval."""

    mean: float
    low: float | None
    high: float | None
    n: int  # observations behind it

    @property
    def interval(self) -> tuple[float, float] | None:
        """``(low, high)``, or None."""
        return None if self.low is None or self.high is None else (self.low, self.high)


def stratified_mean(strata: Mapping[str, Sequence[float]], within: Range = UNBOUNDED) -> Estimate | None:
    """Return the mean over strata (countries) of equal weight, whatever their sizes, with its t interval ``within``.

    ``within`` has the least and the largest possible value; the interval is cut there.

    The variance is the sum of the strata's squared standard errors over K^2, with degrees of freedom by Welch and
    Satterthwaite (Satterthwaite, Biometrics 2, 1946). None where a stratum is empty: the mean over the others would be
    another quantity. No interval where a stratum has a single value.
    """
    if not strata or not all(strata.values()):
        return None
    count = len(strata)
    mean = fmean(fmean(values) for values in strata.values())
    n = sum(map(len, strata.values()))
    if any(len(values) == 1 for values in strata.values()):
        return Estimate(mean, None, None, n)
    parts = [(variance(values) / len(values) / count**2, len(values) - 1) for values in strata.values()]
    squared = sum(part for part, _ in parts)
    if squared == 0:
        return Estimate(mean, mean, mean, n)
    # Scaled by the sum, so that tiny variances do not underflow when squared.
    freedom = 1 / sum((part / squared) ** 2 / df for part, df in parts)
    return _student(mean, squared, freedom, n, within)


def stratified_rate(strata: Mapping[str, Sequence[bool]]) -> Estimate | None:
    """Return the rate over strata (countries) of equal weight, with an interval inside [0, 1] for independent games.

    This is Wilson's score interval at the effective number of games (Korn and Graubard, Survey Methodology 24, 1998):
    with rate p and the stratified variance V, the sum of ``p_k (1 - p_k) / (n_k - 1)`` over K^2, it is
    ``p (1 - p) / V``. Differences between countries are no sampling error, so it may exceed the number of games.
    That number is taken where V is zero or unknown (one game in a country). None where a stratum is empty.
    """
    if not strata or not all(strata.values()):
        return None
    n = sum(map(len, strata.values()))
    rates = {name: fmean(flags) for name, flags in strata.items()}
    rate, effective = fmean(rates.values()), float(n)
    if all(len(flags) > 1 for flags in strata.values()):
        parts = (rates[name] * (1 - rates[name]) / (len(flags) - 1) for name, flags in strata.items())
        squared = sum(parts) / len(strata) ** 2
        effective = rate * (1 - rate) / squared if squared > 0 else n
    return Estimate(rate, *wilson_score(rate, effective), n)


def paired_difference(before: Sequence[float], after: Sequence[float], within: Range = UNBOUNDED) -> Estimate | None:
    """Return the mean of ``after - before`` over pairs, with Student's interval of the differences ``within``.

    Each pair is of one question, say, under both treatments; pairs are independent. What makes both values of a pair
    high or low together leaves the difference, so the interval is narrower than that of ``difference``. None without
    pairs. No interval from one pair, or where all differences are equal: they say nothing of how others would vary.

    Raises ValueError where a value has no partner.
    """
    differences = [new - old for old, new in zip(before, after, strict=True)]
    if not differences:
        return None
    if len(set(differences)) == 1:
        return Estimate(differences[0], None, None, len(differences))
    return stratified_mean({"pairs": differences}, within)


def clustered_mean(clusters: Sequence[Sequence[float]], within: Range = UNBOUNDED) -> Estimate | None:
    """Return the mean of all values, with an interval for values that are independent between clusters only.

    ``within`` has the least and the largest possible value; the interval is cut there.

    With cluster g's share of the values ``h_g``, the sum of its residuals ``e_g`` and N values in all, the variance is
    ``sum_g e_g^2 / (1 - h_g) / N^2`` with ``1 / (sum_g h_g^2 + sum_{g != k} b_g b_k)``, ``b_g = h_g^2 / (1 - h_g)``,
    degrees of freedom: CR2 and its Satterthwaite correction (Bell and McCaffrey, Survey Methodology 28, 2002) for a
    mean. With clusters of equal size this is Student's t interval of the clusters' means. The clusters may have any
    sizes; empty ones are ignored. None without values; no interval from one cluster.
    """
    clusters = [cluster for cluster in clusters if cluster]
    if not clusters:
        return None
    count = sum(map(len, clusters))
    if len(clusters) == 1:
        return Estimate(fmean(clusters[0]), None, None, count)
    return _student(*_clustered_error(clusters), count, within)


def clustered_rate(clusters: Sequence[Sequence[float]]) -> Estimate | None:
    """Return the rate of ones among zeros and ones, with an interval inside [0, 1] for values as in ``clustered_mean``.

    This is Wilson's score interval at the effective number of values with the t quantile of the clustered degrees of
    freedom (Dean and Pagano, Journal of Survey Statistics and Methodology 3, 2015; Korn and Graubard, Survey
    Methodology 24, 1998). The effective number is N times the variance of a mean of independent values over the
    clustered variance. It is at most N, and at least ``1 / sum_g h_g^2``: its value where a cluster's values are all
    equal. Where all values are equal, the correlation is unknown, and the least number is taken.
    """
    clusters = [cluster for cluster in clusters if cluster]
    estimate = clustered_mean(clusters)
    if estimate is None or estimate.interval is None:
        return estimate
    rate, squared, freedom = _clustered_error(clusters)
    count = estimate.n
    least = count**2 / sum(len(cluster) ** 2 for cluster in clusters)
    independent = rate * (1 - rate) / (count - 1)
    if independent == 0:
        effective = least
    elif squared == 0:
        effective = count
    else:
        effective = min(count, max(least, count * independent / squared))
    quantile = student_t_quantile(_UPPER, freedom)
    return Estimate(rate, *wilson_score(rate, effective, quantile), count)


def wilson_score(rate: float, trials: float, z: float = _Z) -> tuple[float, float]:
    """Return the ends of Wilson's interval (Wilson, JASA 22, 1927), inside [0, 1], with the standard score ``z``."""
    spread = 1 + z * z / trials
    center = (rate + z * z / (2 * trials)) / spread
    half = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials)) / spread
    # Exact at the ends; elsewhere a rounding error must not leave the range.
    return (0.0 if rate == 0 else max(0.0, center - half)), (1.0 if rate == 1 else min(1.0, center + half))


def difference(before: Estimate, after: Estimate) -> Estimate:
    """Return ``after - before`` of independent estimates, without an interval where one of them has none.

    The interval takes each side's distance from the means to the ends that lie there: MOVER (Zou and Donner, Statistics
    in Medicine 27, 2008). For symmetric ends it is the usual one. It never reaches beyond the differences of the ends,
    so it stays within the possible range if both intervals do.
    """
    mean, n = after.mean - before.mean, before.n + after.n
    if before.low is None or before.high is None or after.low is None or after.high is None:
        return Estimate(mean, None, None, n)
    below = math.hypot(after.mean - after.low, before.high - before.mean)
    above = math.hypot(after.high - after.mean, before.mean - before.low)
    return Estimate(mean, mean - below, mean + above, n)


def student_t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t for real degrees of freedom > 0; probability in (0, 1)."""
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # slow to import

    return float(stdtrit(freedom, probability))


def _clustered_error(clusters: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return mean, squared standard error and degrees of freedom of at least two clusters, see ``clustered_mean``."""
    count = sum(map(len, clusters))
    mean = math.fsum(value for cluster in clusters for value in cluster) / count
    shares = [len(cluster) / count for cluster in clusters]
    residuals = [math.fsum(value - mean for value in cluster) for cluster in clusters]
    squared = sum(e * e / (1 - h) for e, h in zip(residuals, shares, strict=True)) / count**2
    b = [h * h / (1 - h) for h in shares]
    return mean, squared, 1 / (sum(h * h for h in shares) + sum(b) ** 2 - sum(each * each for each in b))


def _student(mean: float, squared: float, freedom: float, n: int, within: Range) -> Estimate:
    half = student_t_quantile(_UPPER, freedom) * math.sqrt(squared)
    return Estimate(mean, max(within[0], mean - half), min(within[1], mean + half), n)
