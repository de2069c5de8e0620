"""Scores of several runs on several tasks as one figure: the interquartile mean, and performance profiles.

After Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (NeurIPS 2021). Runs are
independent, and every task weighs the same. Intervals are percentiles of a stratified bootstrap, which draws the runs
of each task again. Axes: T tasks, N runs of a task, R resamples, X thresholds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from grpo_core.statistics.estimate import Estimate
from grpo_core.statistics.quantiles import LEVEL

Floats = NDArray[np.float64]

RESAMPLES = 5000
_CUT = 0.25  # of the scores at either end


def interquartile_mean(scores: Mapping[str, Sequence[float]]) -> float:
    """Return the mean of the middle half of all scores, a task's each weighing one over the number of its runs.

    With equal numbers of runs it is SciPy's ``trim_mean(scores, 0.25)``, but that a score on the border counts in part.
    Raises ValueError without scores.
    """
    values, weights = _flat(scores)
    return float(_middle_mean(values[None], weights[None])[0])


def aggregate_score(
    scores: Mapping[str, Sequence[float]], generator: np.random.Generator, *, level: float = LEVEL
) -> Estimate:
    """Return the interquartile mean with its interval; none where a task has one run.

    Raises ValueError without scores.
    """
    values, weights = _flat(scores)
    mean = float(_middle_mean(values[None], weights[None])[0])
    if min(map(len, scores.values())) < 2:
        return Estimate(mean, None, None, len(values))
    drawn = _middle_mean(_resampled(scores, generator), np.broadcast_to(weights, (RESAMPLES, len(values))))
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(mean, float(low), float(high), len(values))


def performance_profile(
    scores: Mapping[str, Sequence[float]],
    thresholds: Sequence[float],
    generator: np.random.Generator,
    *,
    level: float = LEVEL,
) -> list[Estimate]:
    """Return the share of runs with a score above each threshold, tasks weighing the same, with pointwise intervals.

    Raises ValueError without scores.
    """
    values, weights = _flat(scores)
    above = np.asarray(thresholds, np.float64)
    shares = ((values[None] > above[:, None]) * weights).sum(1) / weights.sum()
    if min(map(len, scores.values())) < 2:
        return [Estimate(float(share), None, None, len(values)) for share in shares]
    resampled = _resampled(scores, generator)
    found = []
    for threshold, share in zip(above, shares, strict=True):
        drawn = ((resampled > threshold) * weights).sum(1) / weights.sum()
        low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
        found.append(Estimate(float(share), float(low), float(high), len(values)))
    return found


def lowest_mean(
    scores: Mapping[str, Sequence[float]], generator: np.random.Generator, *, level: float = LEVEL
) -> Estimate:
    """Return the mean score of the task where it is lowest, with its interval; none where a task has one run.

    In the bootstrap another task may be the lowest. The minimum of noisy means is biased downwards where tasks are
    close to one another, and the interval with it.

    Raises ValueError without scores.
    """
    count = len(_flat(scores)[0])
    mean = min(float(np.mean(each)) for each in scores.values())
    if min(map(len, scores.values())) < 2:
        return Estimate(mean, None, None, count)
    drawn = np.min([_resampled({"": each}, generator).mean(1) for each in scores.values()], axis=0)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(mean, float(low), float(high), count)


def _flat(scores: Mapping[str, Sequence[float]]) -> tuple[Floats, Floats]:
    """All scores, and the weight of each: one over the number of its task's runs."""
    if not scores or not all(scores.values()):
        raise ValueError("every task needs a score")
    values = np.concatenate([np.asarray(each, np.float64) for each in scores.values()])
    return values, np.concatenate([np.full(len(each), 1 / len(each)) for each in scores.values()])


def _resampled(scores: Mapping[str, Sequence[float]], generator: np.random.Generator) -> Floats:
    """Scores with each task's runs drawn again, shape (R, all runs)."""
    drawn = []
    for each in scores.values():
        values = np.asarray(each, np.float64)
        drawn.append(values[generator.integers(len(values), size=(RESAMPLES, len(values)))])
    return np.concatenate(drawn, axis=1)


def _middle_mean(values: Floats, weights: Floats) -> Floats:
    """The weighted mean of what lies between the quartiles, shape (R,), of rows of values and weights (R, N)."""
    order = np.argsort(values, axis=1, kind="stable")
    ranked = np.take_along_axis(values, order, 1)
    share = np.take_along_axis(weights, order, 1)
    share = share / share.sum(1, keepdims=True)
    ends = np.cumsum(share, axis=1)
    kept = np.minimum(ends, 1 - _CUT) - np.maximum(ends - share, _CUT)  # of each score's share, what is in the middle
    kept = np.maximum(kept, 0.0)
    middle: Floats = (ranked * kept).sum(1) / kept.sum(1)
    return middle
