"""AdamW's moments by parameter name, for storage outside the optimizer."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

_MOMENTS = ("exp_avg", "exp_avg_sq")


def saved_moments(
    optimizer: torch.optim.Optimizer, named: Mapping[str, nn.Parameter]
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Return CPU copies, ``"exp_avg/<parameter name>"``, and step counts; parameters without a step have neither."""
    tensors: dict[str, Tensor] = {}
    steps: dict[str, float] = {}
    for name, parameter in named.items():
        moments = optimizer.state.get(parameter)
        if moments:
            for kind in _MOMENTS:
                tensors[f"{kind}/{name}"] = moments[kind].detach().cpu().clone()
            steps[name] = float(moments["step"])
    return tensors, steps


def restored_moments(
    tensors: Mapping[str, Tensor], steps: Mapping[str, float], named: Mapping[str, nn.Parameter]
) -> dict[nn.Parameter, dict[str, Tensor]]:
    """Return the optimizer's ``state`` for ``saved_moments``.

    Raises:
        KeyError: a parameter or one of its moments is missing.
        ValueError: a moment has another shape than its parameter.
    """
    restored: dict[nn.Parameter, dict[str, Tensor]] = {}
    for name, count in steps.items():
        parameter = named[name]
        # A fused optimizer needs its step count on the parameter's device.
        restored[parameter] = {"step": torch.tensor(count, dtype=torch.float32, device=parameter.device)}
        for kind in _MOMENTS:
            moment = tensors[f"{kind}/{name}"]
            if moment.shape != parameter.shape:
                raise ValueError(f"{name}: {tuple(moment.shape)} against {tuple(parameter.shape)}")
            restored[parameter][kind] = moment.to(parameter.device, copy=True)
    return restored
