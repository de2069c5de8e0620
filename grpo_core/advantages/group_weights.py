"""Weights of groups: bounded factors on advantages, mean 1 over the batch's episodes.

A group here is one value of ``grouping.weight_key`` (a country by default). Only returns of earlier batches are used,
because a factor that depends on the returns it multiplies would bias the gradient. Episodes are counted, not turns,
because an episode's number of turns is an outcome.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from grpo_core.types import FloatArray

SLOW_MEMORY = 0.9  # of the long mean of a group's returns, per batch
FAST_MEMORY = 0.5  # of the short one, which moves first while the group learns or forgets
_SMALLEST = 1e-9  # share of the largest raw weight that every group has, so that any mean within the bounds exists

Float64Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """A group's returns in past batches."""

    fast: float  # exponentially weighted mean with FAST_MEMORY
    slow: float  # with SLOW_MEMORY
    variance: float  # of single returns within a batch, with SLOW_MEMORY; >= 0

    @property
    def learning(self) -> float:
        """The returns' recent movement, in deviations of one return; >= 0."""
        gap = abs(self.fast - self.slow)
        return gap / math.sqrt(self.variance) if self.variance > 0 else 0.0


def group_weights(
    kind: Literal["none", "balanced", "performance", "adaptive"],
    counts: Mapping[str, int],
    past: Mapping[str, GroupProgress],
    lowest: float,
    highest: float,
) -> dict[str, float]:
    """Compute each group's weight, within [lowest, highest], with mean 1 over episodes.

    - ``balanced``: in inverse proportion to the group's episodes, so that the groups' totals are equal.
    - ``performance``: ``exp(-z)``, z the group's slow mean return standardised over the groups: more for the weaker.
    - ``adaptive``: in proportion to ``GroupProgress.learning`` (the teacher of Matiisen et al., arXiv 1707.00183, also
      prefers tasks with a large slope of either sign).

    A group without a past has the mean of the others' raw weights. ``counts`` are the groups' episodes in this batch,
    each >= 1; ``past`` is the progress before it; ``lowest`` is in (0, 1] and ``highest`` >= 1.
    """
    names = list(counts)
    size_G = np.array([counts[name] for name in names], np.float64)
    raw_G = np.ones(len(names))
    known_G = np.array([name in past for name in names], bool)
    if kind == "balanced":
        raw_G = 1 / size_G
    elif kind != "none" and known_G.any():
        known = [past[name] for name in names if name in past]
        raw_G[known_G] = _weakness(known) if kind == "performance" else [each.learning for each in known]
        raw_G[~known_G] = raw_G[known_G].mean()
    return dict(zip(names, bounded_to_mean_one(raw_G, size_G, lowest, highest).tolist(), strict=True))


def bounded_to_mean_one(raw_G: Float64Array, size_G: Float64Array, lowest: float, highest: float) -> Float64Array:
    """Return ``clip(c * raw, lowest, highest)`` with the c, found by bisection, that makes the mean over episodes 1.

    Raw weights are >= 0; if all are 0 the weights are 1.
    """
    if not raw_G.any():
        return np.ones(len(raw_G))
    # Between these factors everything is at the lower and at the upper bound.
    raw_G = np.maximum(raw_G / raw_G.max(), _SMALLEST)
    low, high = math.log(lowest), math.log(highest / _SMALLEST)
    for _ in range(100):
        middle = (low + high) / 2
        weights_G = np.clip(math.exp(middle) * raw_G, lowest, highest)
        if np.average(weights_G, weights=size_G) < 1:
            low = middle
        else:
            high = middle
    bounded: Float64Array = np.clip(math.exp(high) * raw_G, lowest, highest)
    return bounded


def updated_progress(
    past: Mapping[str, GroupProgress], names: Sequence[str], returns: FloatArray
) -> dict[str, GroupProgress]:
    """Return the groups' progress after a batch; ``names`` are the samples' groups, ``returns`` is (samples,)."""
    out = dict(past)
    values_by_name: dict[str, list[float]] = {}
    for name, value in zip(names, returns.tolist(), strict=True):
        values_by_name.setdefault(name, []).append(value)
    for name, group in sorted(values_by_name.items()):
        values = np.array(group, np.float64)
        mean, variance = float(values.mean()), float(values.var())
        old = past.get(name, GroupProgress(mean, mean, variance))
        out[name] = GroupProgress(
            fast=FAST_MEMORY * old.fast + (1 - FAST_MEMORY) * mean,
            slow=SLOW_MEMORY * old.slow + (1 - SLOW_MEMORY) * mean,
            variance=SLOW_MEMORY * old.variance + (1 - SLOW_MEMORY) * variance,
        )
    return out


def _weakness(known: Sequence[GroupProgress]) -> Float64Array:
    slow_G = np.array([each.slow for each in known], np.float64)
    if slow_G.max() == slow_G.min():
        return np.ones(len(slow_G))
    weakness: Float64Array = np.exp(-(slow_G - slow_G.mean()) / slow_G.std())
    return weakness
