"""Gradient surgery with PCGrad and CAGrad, for groups whose gradients conflict. Axes: G groups, P trained parameters.

Both methods give weights of the groups' gradients from their inner products alone, so nothing else of size (G, P) is
made. Both give a *mean* direction: without conflict it is the mean of the groups' gradients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from grpo_core.errors import DivergenceError, ResourceError

Float64Array = NDArray[np.float64]

_CHUNK = 1 << 20  # parameters whose gradients are widened to float64 at a time
_BISECTIONS = 45  # relative precision of the penalty: about 1e-12
_ROUNDING = 1e-13  # error of sums whose terms are at most about 1
_LEAST_PENALTY = 1e-5  # with the longest gradient at 1: the worst group loses at most this times the radius


@dataclass(frozen=True, slots=True, eq=False)
class ConflictStatistics:
    """How far the groups of one step disagree."""

    norm_G: Float64Array
    conflicting_fraction: float  # of the pairs whose cosine is negative, in [0, 1]; 0 without pairs
    mean_cosine: float  # over pairs of distinct groups with a gradient; 0 without any


def gram_matrix(gradients_GP: Tensor) -> Float64Array:
    """Return inner products of the groups' gradients, shape (G, G), summed in float64.

    Raises:
        DivergenceError: a group's gradient is not finite.
    """
    gram_GG = torch.zeros(len(gradients_GP), len(gradients_GP), dtype=torch.float64, device=gradients_GP.device)
    for part in torch.split(gradients_GP.detach(), _CHUNK, dim=1):
        wide = part.double()
        gram_GG += wide @ wide.T
    out: Float64Array = gram_GG.cpu().numpy()
    broken = np.flatnonzero(~np.isfinite(np.diag(out)))
    if len(broken):
        raise DivergenceError(f"the gradient of group {broken[0]} is not finite; look at its loss and ratio_max")
    return out


def conflict_statistics(gram_GG: Float64Array) -> ConflictStatistics:
    """Compute norms, pairwise cosines and the share of pairs in conflict from ``gram_matrix``."""
    norm_G = np.sqrt(np.diag(gram_GG))
    scale_GG = np.outer(norm_G, norm_G)
    cosine_GG = np.divide(gram_GG, scale_GG, out=np.zeros_like(gram_GG), where=scale_GG > 0).clip(-1, 1)
    upper = np.triu_indices(len(gram_GG), 1)
    pairs, known = cosine_GG[upper], scale_GG[upper] > 0
    return ConflictStatistics(
        norm_G=norm_G,
        conflicting_fraction=float((pairs < 0).mean()) if len(pairs) else 0.0,
        mean_cosine=float(pairs[known].mean()) if known.any() else 0.0,
    )


def pcgrad_weights(gram_GG: Float64Array, generator: np.random.Generator) -> Float64Array:
    """Return weights (G,) of the groups' gradients in PCGrad's mean direction (arXiv 2001.06782).

    Each gradient is compared with the original others in a random order. On a conflict, ``g_i . g_j < 0``, it loses
    its component: ``g_i -= (g_i . g_j) / |g_j|^2 g_j``. The paper sums the results; this is their mean.
    """
    groups = len(gram_GG)
    mixed_GG = np.eye(groups)  # row i: the projected g_i as a combination of the original gradients
    for row, mix_G in enumerate(mixed_GG):
        for other in generator.permutation(groups):
            along = mix_G @ gram_GG[:, other]
            if other != row and along < 0 < gram_GG[other, other]:
                mix_G[other] -= along / gram_GG[other, other]
    mean_G: Float64Array = mixed_GG.mean(axis=0)
    return mean_G


def cagrad_weights(gram_GG: Float64Array, c: float) -> Float64Array:
    """Return weights (G,) of the groups' gradients in CAGrad's direction (arXiv 2110.14048); ``c`` is in [0, 1).

    With the mean gradient ``g0``, the direction ``d`` maximises ``min_i g_i . d`` over ``|d - g0| <= c |g0|``. With
    ``c = 0`` it is the mean. Its dual is ``d = g0 + c |g0| g_w / |g_w|``, where ``g_w = sum_i w_i g_i`` and ``w`` on
    the simplex minimises ``g_w . g0 + c |g0| |g_w|``.

    With a penalty ``rho > 0``, maximising ``min_i g_i . d - rho / 2 |d - g0|^2`` gives ``d = g0 + g_w / rho``,
    where ``g_w + rho g0`` is the shortest vector in the convex hull of ``g_i + rho g0``. ``|d - g0|`` falls as ``rho``
    grows, so bisection finds the ``rho`` at which it is the radius. If even the least ``rho`` stays within the radius
    (the best for the worst group is 0), that ``d`` is taken, because the dual's formula would divide 0 by 0.
    """
    mean_G = np.full(len(gram_GG), 1 / len(gram_GG))
    largest = float(np.diag(gram_GG).max())
    if largest == 0:
        return mean_G
    rows_GR = _vectors_with_inner_products(gram_GG / largest)
    gram_GG = rows_GR @ rows_GR.T
    length = _length(mean_G, rows_GR)
    radius = c * length
    if length <= math.sqrt(np.finfo(np.float64).eps) or radius == 0:
        return mean_G  # inner products do not tell where a mean that short points
    low, high = math.log(_LEAST_PENALTY), max(-math.log(radius), 0.0)
    simplex_G = _worst_mixture(gram_GG, math.exp(low))
    if _length(simplex_G, rows_GR) <= radius * math.exp(low):
        return np.asarray(mean_G + simplex_G / math.exp(low))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        simplex_G = _worst_mixture(gram_GG, math.exp(middle))
        if _length(simplex_G, rows_GR) > radius * math.exp(middle):
            low = middle
        else:
            high = middle
    return np.asarray(mean_G + radius / _length(simplex_G, rows_GR) * simplex_G)


def _worst_mixture(gram_GG: Float64Array, penalty: float) -> Float64Array:
    """Return simplex weights of the shortest vector in the convex hull of the points ``p_i = g_i + penalty g0``.

    They are the normalised ``u >= 0`` that minimises ``|sum u_i p_i|^2 + (sum u_i - 1)^2``.
    """
    drift_G = penalty * gram_GG.mean(axis=0)
    shifted_GG = gram_GG + drift_G[:, None] + drift_G[None, :] + penalty**2 * gram_GG.mean()
    solution_G = _non_negative_least_squares(shifted_GG + 1, np.ones(len(gram_GG)))
    return np.asarray(solution_G / solution_G.sum())


def _non_negative_least_squares(normal_GG: Float64Array, target_G: Float64Array) -> Float64Array:
    """Find the ``u >= 0`` that minimises ``u' N u / 2 - target . u``, by Lawson and Hanson's active sets (1974).

    SciPy's solver raises on nearly parallel gradients; this one stops at the best point that rounding permits.
    """
    groups = len(target_G)
    solution_G = np.zeros(groups)
    free_G = np.zeros(groups, np.bool_)
    for _ in range(10 * groups):
        descent_G = np.where(free_G, -np.inf, target_G - normal_GG @ solution_G)
        entering = int(descent_G.argmax())
        if descent_G[entering] <= _ROUNDING:
            break
        free_G[entering] = True
        while True:
            trial_G = np.zeros(groups)
            trial_G[free_G] = np.linalg.lstsq(normal_GG[np.ix_(free_G, free_G)], target_G[free_G], rcond=None)[0]
            blocked_G = free_G & (trial_G <= 0)
            if not blocked_G.any():
                break
            reach = (solution_G[blocked_G] / (solution_G[blocked_G] - trial_G[blocked_G] + _ROUNDING**2)).min()
            solution_G += min(float(reach), 1.0) * (trial_G - solution_G)
            free_G &= solution_G > _ROUNDING
            solution_G[~free_G] = 0
        solution_G = trial_G
        if not free_G[entering]:  # no room to improve beyond rounding
            break
    return solution_G


def _vectors_with_inner_products(gram_GG: Float64Array) -> Float64Array:
    """Return G vectors, shape (G, R), whose inner products are the given ones, without directions that are rounding.

    From the inner products alone a mixture in which the gradients nearly cancel cannot be told from 0: its squared
    length is lost in their rounding.
    """
    values_G, vectors_GG = np.linalg.eigh(gram_GG)
    kept_G = values_G > len(gram_GG) * np.finfo(np.float64).eps * values_G.max()
    out: Float64Array = vectors_GG[:, kept_G] * np.sqrt(values_G[kept_G])
    return out


def _length(weights_G: Float64Array, rows_GR: Float64Array) -> float:
    return float(np.linalg.norm(weights_G @ rows_GR))


def combined(weights_G: Float64Array, gradients_GP: Tensor) -> Tensor:
    """Return the weighted sum of the groups' gradients, shape (P,), in their type."""
    weights = torch.from_numpy(weights_G).to(gradients_GP.device, gradients_GP.dtype)
    return weights @ gradients_GP


def flat_gradient(parameters: Mapping[str, Tensor], out: Tensor) -> None:
    """Write the parameters' gradients one after the other into ``out``, shape (P,); 0 where a parameter has none."""
    sizes = [parameter.numel() for parameter in parameters.values()]
    for part, parameter in zip(torch.split(out, sizes), parameters.values(), strict=True):
        if parameter.grad is None:
            part.zero_()
        else:
            part.copy_(parameter.grad.detach().reshape(-1))


def assign_gradient(parameters: Mapping[str, Tensor], flat_P: Tensor) -> None:
    """Replace the parameters' ``.grad`` by the parts of a flat vector (P,), in order; views if the type is equal."""
    sizes = [parameter.numel() for parameter in parameters.values()]
    for part, parameter in zip(torch.split(flat_P, sizes), parameters.values(), strict=True):
        parameter.grad = part.view(parameter.shape).to(parameter.device, parameter.dtype)


def check_gradient_memory(parameters: int, groups: int, available_bytes: int) -> None:
    """Raise ResourceError if the groups' float32 gradients do not fit in the available bytes."""
    needed = parameters * groups * 4
    if needed > available_bytes:
        raise ResourceError(
            f"gradients of {groups} groups x {parameters:,} parameters need {needed / 2**30:.2f} GiB, "
            f"{available_bytes / 2**30:.2f} GiB are free: train an adapter, use coarser groups or no gradient surgery"
        )
