"""Means over strata of equal weight, and over clusters, with Student's interval. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from grpo_core.statistics.estimate import UNBOUNDED, Estimate, Range, student_estimate
from grpo_core.statistics.quantiles import LEVEL


def stratified_mean(
    strata: Mapping[str, Sequence[float]], within: Range = UNBOUNDED, *, level: float = LEVEL
) -> Estimate | None:
    """Return the mean over strata (countries) of equal weight, whatever their sizes, with its t interval ``within``.

    ``within`` has the least and the largest possible value; the interval is cut there.

    The variance is the sum of the strata's squared standard errors over K^2, with degrees of freedom by Welch and
    Satterthwaite (Satterthwaite, Biometrics 2, 1946). None where a stratum is empty: the mean over the others would be
    another quantity. No interval where a stratum has a single value. Where all values are the least possible one, or
    all the largest, that variance says nothing: the interval is ``_from_end``'s, and there is none in a range without
    another end, such as that of counts.
    """
    if not strata or not all(strata.values()):
        return None
    mean = fmean(fmean(values) for values in strata.values())
    n = sum(map(len, strata.values()))
    if any(len(values) == 1 for values in strata.values()):
        return Estimate(mean, None, None, n)
    squared, freedom = stratified_error(list(strata.values()))
    if squared == 0 and mean in within:
        if not math.isfinite(within[1] - within[0]):
            return Estimate(mean, None, None, n)
        return _from_end(mean, len(strata) * min(map(len, strata.values())), n, within, level)
    return student_estimate(mean, squared, freedom, n, within, level)


def _from_end(end: float, trials: int, n: int, within: Range, level: float) -> Estimate:
    """Return the interval where all values are one ``end`` of their range: that of Clopper and Pearson for rates.

    A value whose mean is a share ``m`` of the range away from its lower end is the upper end with probability ``m`` at
    most, so all of a stratum's n values are it with ``m^n`` at most. Over strata, the product of these is largest where
    all means are equal, so ``trials`` is the least number of values in a stratum times the number of strata. The
    other end is the mean at which the probability is half of ``1 - level`` (Biometrika 26, 1934).
    """
    reach = (within[1] - within[0]) * (1 - ((1 - level) / 2) ** (1 / trials))
    return Estimate(end, max(within[0], end - reach), min(within[1], end + reach), n)


def stratified_error(strata: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the squared standard error of ``stratified_mean`` and its degrees of freedom, from two values a stratum.

    Where all values of each stratum are equal, the error is 0 and the degrees of freedom are infinite.
    """
    return summed_error([(sample_variance(values) / len(values), len(values) - 1) for values in strata], len(strata))


def summed_error(parts: Sequence[tuple[float, float]], count: int) -> tuple[float, float]:
    """Return squared standard error and degrees of freedom of a sum of independent parts over ``count``.

    ``parts`` have each part's squared standard error and its degrees of freedom (Satterthwaite, Biometrics 2, 1946).
    """
    total = math.fsum(part for part, _ in parts)
    if total == 0:
        return 0.0, math.inf
    # Scaled by the sum, so that tiny variances do not underflow when squared.
    return total / count**2, 1 / math.fsum((part / total) ** 2 / df for part, df in parts)


def sample_variance(values: Sequence[float]) -> float:
    """Return the unbiased variance of at least two values, exactly 0 where all are equal."""
    if min(values) == max(values):
        return 0.0
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def clustered_mean(
    clusters: Sequence[Sequence[float]], within: Range = UNBOUNDED, *, level: float = LEVEL
) -> Estimate | None:
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
    return student_estimate(*clustered_error(clusters), count, within, level)


def clustered_error(clusters: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return mean, squared standard error and degrees of freedom of at least two clusters, see ``clustered_mean``."""
    count = sum(map(len, clusters))
    mean = math.fsum(value for cluster in clusters for value in cluster) / count
    shares = [len(cluster) / count for cluster in clusters]
    residuals = [math.fsum(value - mean for value in cluster) for cluster in clusters]
    squared = sum(e * e / (1 - h) for e, h in zip(residuals, shares, strict=True)) / count**2
    b = [h * h / (1 - h) for h in shares]
    return mean, squared, 1 / (sum(h * h for h in shares) + sum(b) ** 2 - sum(each * each for each in b))
