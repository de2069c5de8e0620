"""The area under the curve of a classifier (ROC), for values that are independent between clusters only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from grpo_core.statistics.estimate import Estimate, student_estimate
from grpo_core.statistics.quantiles import LEVEL

Floats = NDArray[np.float64]


def area_under_curve(
    positive: Sequence[Sequence[float]], negative: Sequence[Sequence[float]], *, level: float = LEVEL
) -> Estimate | None:
    """Return the probability that a positive scores above a negative (ties count half), with an interval.

    ``positive[g]`` and ``negative[g]`` are the scores of cluster g's positives and negatives; either may be empty, and
    clusters without any are left out. The
    variance is that of Obuchowski (Biometrics 53, 1997), which follows DeLong (Biometrics 44, 1988) and needs only the
    clusters to be independent; the degrees of freedom are the clusters less one. None without a positive or without a
    negative; no interval from one cluster.
    """
    both = [(ups, downs) for ups, downs in zip(positive, negative, strict=True) if ups or downs]
    positive, negative = [ups for ups, _ in both], [downs for _, downs in both]
    clusters = len(both)
    ups = np.array([score for own in positive for score in own], float)
    downs = np.array([score for own in negative for score in own], float)
    if not len(ups) or not len(downs):
        return None
    of_ups, of_downs = _placements(ups, downs), 1 - _placements(downs, ups)
    area = float(of_ups.mean())
    count = len(ups) + len(downs)
    if clusters < 2:
        return Estimate(area, None, None, count)
    up = _residuals(of_ups - area, [len(own) for own in positive])
    down = _residuals(of_downs - area, [len(own) for own in negative])
    with_ups, with_downs = sum(map(bool, positive)), sum(map(bool, negative))
    if with_ups < 2 or with_downs < 2:
        return Estimate(area, None, None, count)
    squared = (
        with_ups / (with_ups - 1) * float(up @ up) / len(ups) ** 2
        + with_downs / (with_downs - 1) * float(down @ down) / len(downs) ** 2
        + 2 * clusters / (clusters - 1) * float(up @ down) / (len(ups) * len(downs))
    )
    if squared <= 0:  # all positives above all negatives: the data give no width
        return Estimate(area, None, None, count)
    return student_estimate(area, squared, clusters - 1, count, (0.0, 1.0), level)


def _placements(scores: Floats, others: Floats) -> Floats:
    """Return for each score the share of ``others`` below it, ties counting half."""
    ordered = np.sort(others)
    below, not_above = np.searchsorted(ordered, scores, "left"), np.searchsorted(ordered, scores, "right")
    return np.asarray((below + not_above) / (2 * len(others)), float)


def _residuals(values: Floats, sizes: Sequence[int]) -> Floats:
    """Return the sum of each cluster's values."""
    ends = np.cumsum(sizes)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(sums[ends] - sums[ends - np.array(sizes)], float)
