"""Diagnostics beside the loss: sums over tokens that add up over micro-batches."""

from __future__ import annotations

import torch
from torch import Tensor

from grpo_core.losses.policy_loss import LossTokens, TokenLosses
from grpo_core.settings import LearnerSettings

#: The numbers of ``token_diagnostics``, in order: sums over tokens, but maxima where the name ends in ``_max``.
DIAGNOSTICS = (
    "tokens",
    "ratio",
    "ratio_max",
    "clipped_low",
    "clipped_high",
    "clipped_dual",
    "kl",
    "reference_kl",
    "entropy",
    "gap_max",
    "importance",
    "importance_square",
    "importance_max",
    "masked",
)


@torch.no_grad()
def token_diagnostics(tokens: LossTokens, losses: TokenLosses, settings: LearnerSettings) -> Tensor:
    """Return the numbers named by ``DIAGNOSTICS`` as one vector, float64.

    ``ratio`` is the one that was clipped. ``clipped_*`` count tokens whose gradient a clip removed (in CISPO: bounded):
    ``low`` and ``high`` by the range around 1, ``dual`` by ``delta``. ``kl`` is k3, ``exp(d) - d - 1`` with ``d = lp -
    behaviour lp``; tokens come from the behaviour policy, so its mean estimates KL(behaviour || learner). ``gap_max``
    is the largest |d|. ``reference_kl`` is multiplied by ``beta``. ``importance*`` are the off-policy weights (1
    without any), and ``masked`` counts those that are 0.
    """
    gap = (tokens.logprobs_N - tokens.behaviour_N).double()
    ratio = losses.log_ratio_N.double().exp()
    loses, gains = tokens.advantages_N < 0, tokens.advantages_N > 0
    none = torch.zeros_like(ratio)
    if settings.loss_type == "cispo":
        low, high = none, (ratio > settings.epsilon_high) & gains
    else:
        low, high = (ratio < 1 - settings.epsilon) & loses, (ratio > 1 + settings.epsilon_high) & gains
    importance = torch.ones_like(ratio) if losses.importance_N is None else losses.importance_N.double()
    numbers = {
        "tokens": torch.tensor(float(len(gap)), dtype=torch.float64, device=gap.device),
        "ratio": ratio.sum(),
        "ratio_max": ratio.max(),
        "clipped_low": low.sum(),
        "clipped_high": high.sum(),
        "clipped_dual": (none if settings.delta is None else (ratio > settings.delta) & loses).sum(),
        "kl": (gap.exp() - gap - 1).sum(),
        "reference_kl": (none if losses.kl_N is None else losses.kl_N.double()).sum(),
        "entropy": tokens.entropy_N.double().sum(),
        "gap_max": gap.abs().max(),
        "importance": importance.sum(),
        "importance_square": importance.square().sum(),
        "importance_max": importance.max(),
        "masked": (importance == 0).sum(),
    }
    return torch.stack([numbers[name].double() for name in DIAGNOSTICS])
