"""Group-relative advantages and the running per-role baseline.

GRPO is DeepSeekMath (arXiv 2402.03300): ``A = (r - mean) / (std + eps)`` within a group. Here the mean is a
group's or, where groups starve, a running one of the role; ``scale_rewards`` names the divisor. Leave-one-out is
RLOO's (arXiv 2402.14740), by episodes: turns of one episode share its luck, so none of them may judge another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from grpo_core.advantages.grouping import RUNNING_LEVEL
from grpo_core.advantages.leave_one_out import means_of_other_episodes
from grpo_core.advantages.shrinkage import ShrunkLevel
from grpo_core.types import FloatArray, Group

SCALE_EPS = 1e-4  # as in TRL; keeps a nearly constant group from amplifying its noise
RUNNING_LIMIT = 3.0  # deviations; a role whose past was nearly constant must not shout when something happens


@dataclass(frozen=True, slots=True)
class RunningBaseline:
    """Exponentially weighted mean and variance of one role's returns, batch by batch."""

    mean: float
    variance: float  # population variance, >= 0

    @classmethod
    def of(cls, returns: NDArray[np.floating]) -> RunningBaseline:
        """Statistics of one batch of a role's returns, shape (n,) with n >= 1."""
        values = returns.astype(np.float64)
        return cls(float(values.mean()), float(values.var()))

    def mixed_with(self, newer: RunningBaseline, decay: float) -> RunningBaseline:
        """The mixture that keeps ``decay`` of the old distribution and takes the rest from the newer one."""
        shift = newer.mean - self.mean
        return RunningBaseline(
            mean=self.mean + (1 - decay) * shift,
            variance=decay * self.variance + (1 - decay) * newer.variance + decay * (1 - decay) * shift * shift,
        )


@dataclass(frozen=True, slots=True)
class GroupSignal:
    """What a group said about its members."""

    mean: float  # of the returns it judged against (before leaving any one out)
    std: float  # Bessel-corrected within a group; the running deviation at the running level
    zero: bool  # no signal: constant returns, nobody to compare with, or a running baseline that saw nothing yet
    share: float = 1.0  # how much of the mean is the group's own; the rest came from its parents by shrinkage


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
) -> tuple[FloatArray, tuple[GroupSignal, ...]]:
    """Advantages (samples,) in the samples' order, and one signal a group.

    A group's baseline is the mean of all its members or, under ``leave_one_out``, of those from other episodes than
    the judged one's: ``episodes`` (samples,) says which episode each sample belongs to (None: each to its own). A
    group whose float32 returns are all equal (max == min) gives exactly 0, and under ``leave_one_out`` so does one
    whose members are all of one episode. At the running level the baseline is
    ``running[role]`` as it stood before this batch; a role it does not know gives exactly 0, never the raw
    return.

    With ``shrunk``, the statistics of ``shrunk_levels`` by level, a group's mean and variance lean on its parents';
    then exactly 0 is what a group gives whose whole chain of parents has equal returns or, under ``leave_one_out``, is
    of one episode.

    ``scale``: ``"group"`` divides by the group's deviation + eps (at the running level by the running one, and
    the result stays within 3 deviations); ``"batch"`` by the root mean square of all centred returns of the
    batch + eps (not by the deviation of the raw returns: what sets the roles' means apart says nothing about
    the size of a surprise); ``"none"`` does not divide.
    """
    centred = np.zeros(len(returns), np.float64)
    divisor = np.ones(len(returns), np.float64)
    owners = np.arange(len(returns)) if episodes is None else episodes
    signals: list[GroupSignal] = []
    for group in groups:
        judged = np.asarray(group.judged, np.int64)
        if group.level == RUNNING_LEVEL:
            baseline = running.get(str(group.key[0]))
            if baseline is None:
                signals.append(GroupSignal(math.nan, math.nan, zero=True))
                continue
            centred[judged] = returns[judged].astype(np.float64) - baseline.mean
            signal = GroupSignal(baseline.mean, math.sqrt(baseline.variance), zero=not centred[judged].any())
            divisor[judged] = np.maximum(signal.std, np.abs(centred[judged]) / RUNNING_LIMIT)
        elif shrunk is not None:
            level = shrunk[group.level]
            signal = _shrunk_signal(level, group.members[0], leave_one_out)
            if not signal.zero:
                baselines = level.rest_N if leave_one_out else level.mean_N
                centred[judged] = returns[judged].astype(np.float64) - baselines[judged]
                divisor[judged] = signal.std
        else:
            signal = _own_signal(returns, group, owners if leave_one_out else None)
            if not signal.zero:
                baseline_N = _rest(returns, group, owners) if leave_one_out else signal.mean
                centred[judged] = returns[judged].astype(np.float64) - baseline_N
                divisor[judged] = signal.std
        signals.append(signal)
    if scale == "group":
        centred /= divisor + eps
    elif scale == "batch" and centred.any():
        centred /= math.sqrt(float(np.mean(centred**2))) + eps
    return centred.astype(np.float32), tuple(signals)


def _own_signal(returns: FloatArray, group: Group, owners: NDArray[np.integer] | None) -> GroupSignal:
    """Of a group that judges by its members alone; ``owners`` are the samples' episodes where those must differ."""
    members = np.asarray(group.members, np.int64)
    values = returns[members].astype(np.float64)
    if values.max() == values.min():
        return GroupSignal(float(values[0]), 0.0, zero=True)
    alone = owners is not None and bool((owners[members] == owners[members[0]]).all())
    return GroupSignal(float(values.mean()), float(values.std(ddof=1)), zero=alone)


def _rest(returns: FloatArray, group: Group, owners: NDArray[np.integer]) -> NDArray[np.float64]:
    """The left-out baselines of the judged members."""
    members = np.asarray(group.members, np.int64)
    means, _ = means_of_other_episodes(returns[members].astype(np.float64), np.zeros_like(members), owners[members])
    place = {member: index for index, member in enumerate(group.members)}
    return means[[place[member] for member in group.judged]]


def _shrunk_signal(level: ShrunkLevel, member: int, leave_one_out: bool) -> GroupSignal:
    return GroupSignal(
        mean=float(level.mean_N[member]),
        std=math.sqrt(float(level.variance_N[member])),
        zero=bool(level.constant_N[member] or (leave_one_out and level.alone_N[member])),
        share=float(level.share_N[member]),
    )


def updated_baselines(
    running: Mapping[str, RunningBaseline], roles: Sequence[str], returns: FloatArray, decay: float
) -> dict[str, RunningBaseline]:
    """The running baselines after a batch: read them for its advantages first, then replace them by these.

    ``roles`` and ``returns`` are the samples' (all of them, whichever group judged them), shape (samples,).
    """
    out = dict(running)
    names = np.asarray(roles, dtype=object)
    for role in sorted(set(roles)):
        batch = RunningBaseline.of(returns[names == role])
        out[role] = running[role].mixed_with(batch, decay) if role in running else batch
    return out
