"""Group-relative advantages and the running per-role baseline.

GRPO is DeepSeekMath (arXiv 2402.03300): ``A = (r - mean) / (std + eps)`` within a group. Here the mean is a
group's or, where groups are too small, a running one of the role; ``scale_rewards`` names the divisor. Leave-one-out
is RLOO's (arXiv 2402.14740), by whole episodes, because the returns of one episode's turns are correlated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from grpo_core.advantages.grouping import RUNNING_LEVEL
from grpo_core.advantages.leave_one_out import means_of_other_episodes
from grpo_core.advantages.shrinkage import ShrunkLevel
from grpo_core.types import FloatArray, Group

SCALE_EPS = 1e-4  # as in TRL; keeps a nearly constant group from amplifying its noise
RUNNING_LIMIT = 3.0  # deviations; bounds the advantages of a role whose past returns were nearly constant


@dataclass(frozen=True, slots=True)
class RunningBaseline:
    """Exponentially weighted mean and variance of one role's returns, batch by batch."""

    mean: float
    variance: float  # population variance, >= 0

    def mixed_with(self, newer: RunningBaseline, decay: float) -> RunningBaseline:
        """The mixture of ``decay`` of the old distribution and the rest of the newer one."""
        shift = newer.mean - self.mean
        return RunningBaseline(
            mean=self.mean + (1 - decay) * shift,
            variance=decay * self.variance + (1 - decay) * newer.variance + decay * (1 - decay) * shift * shift,
        )


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Statistics of a group's returns, as they enter its samples' advantages."""

    mean: float  # before leaving any sample out
    std: float  # Bessel-corrected within a group; the running deviation at the running level
    zero_variance: bool  # all returns are equal, no other episode is in it, or the running baseline is unknown
    share: float = 1.0  # how much of the mean is the group's own; the rest comes from its parents by shrinkage
    baselines: tuple[float, ...] = field(default=(), compare=False)  # what each decided sample was compared with


def group_advantages(
    returns: FloatArray,
    groups: Sequence[Group],
    running: Mapping[str, RunningBaseline],
    *,
    scale: Literal["group", "batch", "none"] = "group",
    leave_one_out: bool = False,
    episodes: NDArray[np.integer] | None = None,
    shrunk: Mapping[str, ShrunkLevel] | None = None,
    eps: float = SCALE_EPS,
) -> tuple[FloatArray, tuple[GroupStatistics, ...]]:
    """Advantages (samples,) in the samples' order, and the statistics of each group.

    A group's baseline is the mean of all its members or, under ``leave_one_out``, of those from other episodes
    (``episodes`` (samples,); None: each sample has its own). A group whose float32 returns are all equal (max == min)
    gives exactly 0, and under ``leave_one_out`` so does one of a single episode. At the running level the baseline is
    ``running[role]`` as it was before this batch; a role that it lacks gives exactly 0.

    With ``shrunk``, the statistics of ``shrunk_levels`` by level, a group's mean and variance are shrunk towards its
    parents', and it gives exactly 0 only if that also holds for all of its parents.

    ``scale``: ``"group"`` divides by the group's deviation + eps (at the running level by the running one, and the
    result stays within 3 deviations); ``"batch"`` by the root mean square of all centred returns of the batch + eps;
    ``"none"`` does not divide.
    """
    centred = np.zeros(len(returns), np.float64)
    divisor = np.ones(len(returns), np.float64)
    owners = np.arange(len(returns)) if episodes is None else episodes
    all_statistics = []
    for group in groups:
        decided = np.asarray(group.decided, np.int64)
        baseline: float | NDArray[np.float64]
        if group.level == RUNNING_LEVEL:
            statistics = _running_statistics(returns[decided], running.get(str(group.key[0])))
            baseline = statistics.mean
        elif shrunk is not None:
            level = shrunk[group.level]
            statistics = _shrunk_statistics(level, group.members[0], leave_one_out)
            baseline = (level.rest_N if leave_one_out else level.mean_N)[decided]
        else:
            statistics = _own_statistics(returns, group, owners if leave_one_out else None)
            baseline = _left_out_means(returns, group, owners) if leave_one_out else statistics.mean
        of_each = np.broadcast_to(np.asarray(baseline, np.float64), decided.shape)
        all_statistics.append(replace(statistics, baselines=tuple(of_each.tolist())))
        if statistics.zero_variance:
            continue
        centred[decided] = returns[decided].astype(np.float64) - baseline
        divisor[decided] = statistics.std
        if group.level == RUNNING_LEVEL:
            divisor[decided] = np.maximum(statistics.std, np.abs(centred[decided]) / RUNNING_LIMIT)
    if scale == "group":
        centred /= divisor + eps
    elif scale == "batch" and centred.any():
        # Not by the deviation of the raw returns, which also has the differences between roles' means.
        centred /= math.sqrt(float(np.mean(centred**2))) + eps
    return centred.astype(np.float32), tuple(all_statistics)


def _running_statistics(values: FloatArray, baseline: RunningBaseline | None) -> GroupStatistics:
    if baseline is None:
        return GroupStatistics(math.nan, math.nan, zero_variance=True)
    surprise = bool((values.astype(np.float64) != baseline.mean).any())
    return GroupStatistics(baseline.mean, math.sqrt(baseline.variance), zero_variance=not surprise)


def _own_statistics(returns: FloatArray, group: Group, owners: NDArray[np.integer] | None) -> GroupStatistics:
    """Statistics of the members alone; ``owners`` are the samples' episodes where more than one is needed."""
    members = np.asarray(group.members, np.int64)
    values = returns[members].astype(np.float64)
    if values.max() == values.min():
        return GroupStatistics(float(values[0]), 0.0, zero_variance=True)
    alone = owners is not None and bool((owners[members] == owners[members[0]]).all())
    return GroupStatistics(float(values.mean()), float(values.std(ddof=1)), zero_variance=alone)


def _shrunk_statistics(level: ShrunkLevel, member: int, leave_one_out: bool) -> GroupStatistics:
    return GroupStatistics(
        mean=float(level.mean_N[member]),
        std=math.sqrt(float(level.variance_N[member])),
        zero_variance=bool(level.constant_N[member] or (leave_one_out and level.alone_N[member])),
        share=float(level.share_N[member]),
    )


def _left_out_means(returns: FloatArray, group: Group, owners: NDArray[np.integer]) -> NDArray[np.float64]:
    """The mean of the members from other episodes, for each member whose advantage the group decides."""
    members = np.asarray(group.members, np.int64)
    means, _ = means_of_other_episodes(returns[members].astype(np.float64), np.zeros_like(members), owners[members])
    return means[np.searchsorted(members, group.decided)]  # members ascend


def updated_baselines(
    running: Mapping[str, RunningBaseline], roles: Sequence[str], returns: FloatArray, decay: float
) -> dict[str, RunningBaseline]:
    """The running baselines after a batch, from the ``roles`` and ``returns`` (samples,) of all its samples."""
    out = dict(running)
    names = np.asarray(roles, dtype=object)
    for role in sorted(set(roles)):
        values = returns[names == role].astype(np.float64)
        batch = RunningBaseline(float(values.mean()), float(values.var()))
        out[role] = running[role].mixed_with(batch, decay) if role in running else batch
    return out
