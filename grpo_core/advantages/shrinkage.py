"""Empirical Bayes for small groups: their baseline is shrunk towards the coarser groups of the chain. Axis: N samples.

The model is a hierarchy of random effects: a group's expected return varies about its parent's with variance tau^2, and
an episode's return about its group's with variance sigma^2. The best linear estimate is ``n / (n + k)`` of the group's
own mean and the rest of its parent's estimate, with n episodes and ``k = sigma^2 / tau^2`` (Efron and Morris, "Data
analysis using Stein's estimator and its generalizations", 1975). Each level's variances are estimated from the batch by
equating mean squares with their expectations (Searle, Casella and McCulloch, "Variance Components", 1992).

An observation is the mean of one episode's samples in one group, because the correlation of an episode's turns would
look like an effect of the group. If groups share episodes, tau^2 is estimated low.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_core.advantages.grouping import UNPLACED, Level
from grpo_core.advantages.leave_one_out import episodes_in_group, means_of_other_episodes
from grpo_core.errors import GroupingError
from grpo_core.types import FloatArray, IntArray

Float64Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ShrunkLevel:
    """Estimates for every sample from one level and all coarser ones.

    A sample that the level does not place has the next coarser level's (at the coarsest, those of its role's unplaced
    samples).
    """

    mean_N: Float64Array  # the shrunk mean of the sample's group
    rest_N: Float64Array  # the same without the sample's episode, in its group and in all parents
    variance_N: Float64Array  # the group's Bessel-corrected variance, shrunk by the same share
    share_N: Float64Array  # n / (n + k) in [0, 1] with n episodes; 1 at the coarsest level
    constant_N: NDArray[np.bool_]  # all returns of the group and of its parents are equal
    alone_N: NDArray[np.bool_]  # the group and its parents have samples of no other episode


def shrunk_levels(
    returns_N: FloatArray,
    levels: Sequence[Level],
    roles: Sequence[str],
    episodes: NDArray[np.integer] | None = None,
) -> dict[str, ShrunkLevel]:
    """Compute every level's shrunk statistics, by its expression; the coarsest level's are its groups' own.

    k is estimated from the whole batch, with each role's returns in units of its deviation. Leaving a sample out
    removes its episode from means and counts, not from the variances.

    Args:
        returns_N: (N,) finite.
        levels: from fine to coarse, as ``levels_of`` makes them; each group lies within one group of the next level.
        roles: (N,) names.
        episodes: (N,) each sample's episode; None: each has its own.

    Raises:
        GroupingError: a group lies in several groups of the next level.
    """
    values_N = returns_N.astype(np.float64)
    unit_N = _per_role_units(values_N, roles)
    episode_N = np.arange(len(values_N)) if episodes is None else episodes
    out: dict[str, ShrunkLevel] = {}
    parent: ShrunkLevel | None = None
    # A sample that a level does not place stays in its parent's group, at last in its role's.
    parent_label_N = np.unique(np.asarray(roles, dtype=np.str_), return_inverse=True)[1].astype(np.int32)
    for level in reversed(levels):
        label_N = level.labels(len(values_N))
        whole_N = np.where(label_N == UNPLACED, len(level.members) + parent_label_N, label_N)
        if parent is None:
            parent = _shrink(values_N, whole_N, episode_N, None, 0.0, 0.0)
        else:
            _check_nested(level, label_N, parent_label_N)
            components = variance_components(*_by_episode(unit_N, label_N, parent_label_N, episode_N))
            parent = _shrink(values_N, label_N, episode_N, parent, *components)
        out[level.expression] = parent
        parent_label_N = whole_N
    return out


def variance_components(values_N: Float64Array, child_N: IntArray, parent_N: IntArray) -> tuple[float, float]:
    """Estimate the variances within groups and between the groups of one parent, by moments; both >= 0.

    With G groups of n_g in P parents of n_p (values of the level only) and the two sums of squares,
    ``sigma^2 = SSW / (N - G)`` and ``tau^2 = (SSB - (G - P) sigma^2) / (N - sum_p sum_{g in p} n_g^2 / n_p)``, at least
    0. Values that are NaN or unplaced are ignored. Without a group of two or a parent of two groups both are 0, and the
    parent's mean counts.
    """
    use = np.isfinite(values_N) & (child_N != UNPLACED)
    if not use.any():
        return 0.0, 0.0
    values = values_N[use]
    _, first, child = np.unique(child_N[use], return_index=True, return_inverse=True)
    _, parent = np.unique(parent_N[use], return_inverse=True)
    parent_of_child = parent[first]
    n_child, n_parent = np.bincount(child), np.bincount(parent)
    mean_child = np.bincount(child, values) / n_child
    mean_parent = np.bincount(parent, values) / n_parent
    groups, parents = len(n_child), len(n_parent)
    if len(values) == groups or groups == parents:
        return 0.0, 0.0
    within = float(((values - mean_child[child]) ** 2).sum()) / (len(values) - groups)
    between_squares = float((n_child * (mean_child - mean_parent[parent_of_child]) ** 2).sum())
    spread = len(values) - float((n_child**2 / n_parent[parent_of_child]).sum())
    return within, max(0.0, (between_squares - (groups - parents) * within) / spread)


def _by_episode(
    values_N: Float64Array, child_N: IntArray, parent_N: IntArray, episode_N: NDArray[np.integer]
) -> tuple[Float64Array, IntArray, IntArray]:
    """Return the mean value of each episode in each group, with that group and its parent."""
    cells = np.stack([child_N, parent_N, episode_N])
    (child, parent, _), cell_N = np.unique(cells, axis=1, return_inverse=True)
    cell_N = cell_N.ravel()
    return np.bincount(cell_N, values_N) / np.bincount(cell_N), child.astype(np.int32), parent.astype(np.int32)


def _shrink(
    values_N: Float64Array,
    labels_N: IntArray,
    episode_N: NDArray[np.integer],
    parent: ShrunkLevel | None,
    within: float,
    between: float,
) -> ShrunkLevel:
    placed = labels_N != UNPLACED
    label = np.where(placed, labels_N, 0)
    used, used_label = values_N[placed], labels_N[placed]
    groups = max(int(labels_N.max(initial=0)) + 1, 1)
    n_N = np.bincount(used_label, minlength=groups)[label].astype(np.float64)
    owners_N = np.zeros(len(values_N))
    owners_N[placed] = episodes_in_group(used_label, episode_N[placed])
    lowest, highest = np.full(groups, np.inf), np.full(groups, -np.inf)
    np.minimum.at(lowest, used_label, used)
    np.maximum.at(highest, used_label, used)
    constant_N = placed & (lowest == highest)[label]
    total_N = np.bincount(used_label, used, minlength=groups)[label]
    # For equal values the mean is exact; a rounded sum would leave a small deviation.
    mean_N = np.where(constant_N, values_N, total_N / np.maximum(n_N, 1))
    centred = np.where(placed, values_N - mean_N, 0.0)
    squares = np.bincount(used_label, centred[placed] ** 2, minlength=groups)[label]
    variance_N = squares / np.maximum(n_N - 1, 1)
    others, left = means_of_other_episodes(used, used_label, episode_N[placed])
    rest_N = mean_N.copy()
    rest_N[placed] = np.where(left > 0, others, used)  # no other episode: deviation 0 without a parent
    if parent is None:
        return ShrunkLevel(mean_N, rest_N, variance_N, np.ones(len(values_N)), constant_N, owners_N == 1)
    share_N = _share(owners_N, within, between)
    rest_share_N = _share(owners_N - 1, within, between)
    return ShrunkLevel(
        mean_N=_mix(share_N, mean_N, parent.mean_N),
        rest_N=_mix(rest_share_N, rest_N, parent.rest_N),
        variance_N=_mix(share_N, variance_N, parent.variance_N),
        share_N=share_N,
        constant_N=parent.constant_N,  # a parent holds all of its children's returns
        alone_N=parent.alone_N,
    )


def _share(n_N: Float64Array, within: float, between: float) -> Float64Array:
    """Compute n / (n + within / between); 0 if nothing varies or no episode is left."""
    weight_N = np.maximum(n_N, 0.0) * between
    return np.divide(weight_N, weight_N + within, out=np.zeros_like(weight_N), where=weight_N > 0)


def _mix(share_N: Float64Array, own_N: Float64Array, parent_N: Float64Array) -> Float64Array:
    return parent_N + share_N * (own_N - parent_N)


def _per_role_units(values_N: Float64Array, roles: Sequence[str]) -> Float64Array:
    """Standardise each role's returns; NaN for a role whose returns are all equal."""
    unit_N = np.full(len(values_N), np.nan)
    names = np.asarray(roles, dtype=object)
    for role in set(roles):
        mine = values_N[names == role]
        if mine.max() > mine.min():
            unit_N[names == role] = (mine - mine.mean()) / mine.std()
    return unit_N


def _check_nested(fine: Level, child_N: IntArray, parent_N: IntArray) -> None:
    parent_of: dict[int, int] = {}
    keys = list(fine.members)
    for child, parent in zip(child_N.tolist(), parent_N.tolist(), strict=True):
        if child != UNPLACED and parent_of.setdefault(child, parent) != parent:
            raise GroupingError(
                f"shrinkage needs each of grouping.keys to be finer than the next, but group {keys[child]} of "
                f"{fine.expression!r} lies in several groups of the next; add the next one's facts to it, or leave one "
                "of the two out"
            )
