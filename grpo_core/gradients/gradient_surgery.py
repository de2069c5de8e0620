"""Gradient surgery in one optimizer step: one backward pass for each group, then one direction for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import psutil
import torch
from torch import Tensor

from grpo_core.gradients.pcgrad_cagrad import (
    assign_gradient,
    cagrad_weights,
    check_gradient_memory,
    combined,
    conflict_statistics,
    flat_gradient,
    gram_matrix,
    pcgrad_weights,
)
from grpo_core.settings import GroupingSettings


@dataclass(frozen=True, slots=True)
class SurgeryRecord:
    """How far the groups' gradients of one optimizer step disagreed, before surgery."""

    grad_norms: Mapping[str, float]  # by group, of its share of the loss
    conflict_fraction: float  # of the pairs of groups whose gradients have a negative cosine, [0, 1]
    cosine_mean: float  # over pairs, [-1, 1]


def apply_surgery(
    parameters: Mapping[str, Tensor],
    groups: Mapping[str, Sequence[int]],
    backward: Callable[[Sequence[int]], float],
    settings: GroupingSettings,
    generator: np.random.Generator,
) -> tuple[float, SurgeryRecord]:
    """Set the parameters' ``.grad`` to the combined direction; returns the whole loss and a record.

    The direction is the methods' mean direction times the number of groups: without conflict (PCGrad), or with
    ``cagrad_c = 0``, it is the gradient of the whole loss.

    Args:
        parameters: the trained parameters by name.
        groups: by name, what ``backward`` takes.
        backward: adds the gradient of one group's share of the loss to ``.grad`` and returns its value.
        settings: ``gradient_surgery`` and ``cagrad_c``.
        generator: draws PCGrad's orders.

    Raises:
        ResourceError: the groups' gradients do not fit in memory side by side.
        DivergenceError: a group's gradient is not finite.
    """
    device = next(iter(parameters.values())).device
    size = sum(parameter.numel() for parameter in parameters.values())
    check_gradient_memory(size, len(groups), _free_bytes(device))
    gradients_GP = torch.empty(len(groups), size, device=device)
    loss = 0.0
    for row_P, members in zip(gradients_GP, groups.values(), strict=True):
        _forget(parameters)
        loss += backward(members)
        flat_gradient(parameters, out=row_P)
    gram_GG = gram_matrix(gradients_GP)
    if settings.gradient_surgery == "pcgrad":
        weights_G = pcgrad_weights(gram_GG, generator)
    else:
        weights_G = cagrad_weights(gram_GG, settings.cagrad_c)
    _forget(parameters)
    assign_gradient(parameters, combined(weights_G * len(groups), gradients_GP))
    found = conflict_statistics(gram_GG)
    norms = dict(zip(groups, found.norm_G.tolist(), strict=True))
    return loss, SurgeryRecord(norms, found.conflicting_fraction, found.mean_cosine)


def _forget(parameters: Mapping[str, Tensor]) -> None:
    for parameter in parameters.values():
        parameter.grad = None


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)
