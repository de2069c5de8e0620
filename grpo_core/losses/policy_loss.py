"""Policy losses of single tokens; ``token_weights`` gives each token's weight in the sum.

``grpo``, ``bnpo``, ``dr_grpo`` and ``dapo`` share the clipped surrogate and differ only in the normaliser. ``cispo``
has its own loss. ``rloo`` takes a turn as one action: the clipped surrogate of the whole turn's ratio, whose first step
is REINFORCE (arXiv 2402.14740); the leave-one-out baseline is a setting of the grouping. Axes as in ``ratios``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from grpo_core.losses.kl import kl_estimates
from grpo_core.losses.off_policy import importance_weights, off_policy_mask
from grpo_core.losses.ratios import RatioLevel, log_ratios
from grpo_core.settings import LearnerSettings


@dataclass(frozen=True, slots=True, eq=False)
class LossTokens:
    """The loss's inputs for N trained tokens, all of shape (N,)."""

    logprobs_N: Tensor  # of the weights being trained, differentiable
    entropy_N: Tensor  # nats; differentiable if there is an entropy bonus
    behaviour_N: Tensor
    advantages_N: Tensor
    row_N: Tensor  # int64
    rows: int
    proximal_N: Tensor | None = None  # of the weights at the update's start; needed if decoupled
    reference_N: Tensor | None = None  # of the reference; needed if beta > 0


@dataclass(frozen=True, slots=True, eq=False)
class TokenLosses:
    """The loss of each token and its parts, all of shape (N,)."""

    loss_N: Tensor  # differentiable
    log_ratio_N: Tensor  # of the ratio that was clipped
    importance_N: Tensor | None  # off-policy weights and masks; None without any
    kl_N: Tensor | None  # is multiplied by beta; None without a reference


def clipped_surrogate(
    log_ratio_N: Tensor, advantages_N: Tensor, epsilon: float, epsilon_high: float, delta: float | None = None
) -> Tensor:
    """Compute ``-min(rho A, clip(rho, 1 - epsilon, 1 + epsilon_high) A)`` with ``rho = exp(log ratio)``, shape (N,).

    This is PPO's surrogate (arXiv 1707.06347) with DAPO's separate upper range (arXiv 2503.14476). ``delta`` bounds the
    first ``rho``, so a negative advantage costs at most ``delta |A|`` (dual clip, arXiv 1912.09729 and 2505.07291).
    """
    # For A >= 0 the lesser of rho and 1 + epsilon_high counts, for A < 0 the larger of rho and 1 - epsilon. It is
    # bounded before exp, because an overflow would turn a gradient of 0 into 0 times infinity.
    gains_N = log_ratio_N.clamp(max=math.log1p(epsilon_high))
    costs_N = log_ratio_N.clamp(math.log1p(-epsilon), None if delta is None else math.log(delta))
    return -torch.where(advantages_N < 0, costs_N, gains_N).exp() * advantages_N


def cispo(log_ratio_N: Tensor, logprobs_N: Tensor, advantages_N: Tensor, epsilon_high: float) -> Tensor:
    """Compute CISPO (MiniMax-M1, arXiv 2506.13585): ``-min(rho, epsilon_high) A lp``, shape (N,).

    The ratio ``rho`` has no gradient, so every token keeps one. ``epsilon_high`` bounds ``rho``, not its distance to 1.
    """
    return -log_ratio_N.exp().clamp(max=epsilon_high).detach() * advantages_N * logprobs_N


def token_losses(tokens: LossTokens, settings: LearnerSettings) -> TokenLosses:
    """Compute the loss of each token: surrogate x corrections + beta KL - entropy_coef entropy."""
    old_N = tokens.behaviour_N
    if settings.decoupled:
        assert tokens.proximal_N is not None
        old_N = tokens.proximal_N
    log_ratio_N = log_ratios(tokens.logprobs_N, old_N, tokens.row_N, tokens.rows, _ratio_level(settings))
    if settings.loss_type == "cispo":
        loss_N = cispo(log_ratio_N, tokens.logprobs_N, tokens.advantages_N, settings.epsilon_high)
    else:
        loss_N = clipped_surrogate(
            log_ratio_N, tokens.advantages_N, settings.epsilon, settings.epsilon_high, settings.delta
        )
    importance_N = _corrections(tokens, settings)
    if importance_N is not None:
        loss_N = loss_N * importance_N
    kl_N = None
    if settings.beta > 0:
        assert tokens.reference_N is not None
        kl_N = kl_estimates(tokens.logprobs_N, tokens.reference_N, settings.kl_estimator)
        if settings.use_bias_correction_kl:
            kl_N = kl_N * log_ratio_N.exp()
        loss_N = loss_N + settings.beta * kl_N
    if settings.entropy_coef > 0:
        loss_N = loss_N - settings.entropy_coef * tokens.entropy_N
    return TokenLosses(loss_N, log_ratio_N, importance_N, kl_N)


def _ratio_level(settings: LearnerSettings) -> RatioLevel:
    if settings.loss_type == "rloo":
        return "turn_sum"
    return "turn_mean" if settings.importance_sampling_level == "sequence" else "token"


def _corrections(tokens: LossTokens, settings: LearnerSettings) -> Tensor | None:
    behaviour_N, row_N, rows = tokens.behaviour_N, tokens.row_N, tokens.rows
    factors: list[Tensor] = []
    if tokens.proximal_N is not None and settings.decoupled:
        mode, low, high = (
            settings.importance_sampling_mode,
            settings.importance_sampling_clip_min,
            settings.importance_sampling_clip_max,
        )
        factors.append(importance_weights(tokens.proximal_N, behaviour_N, row_N, rows, mode, low, high))
    if (threshold := settings.off_policy_mask_threshold) is not None:
        factors.append(off_policy_mask(tokens.logprobs_N, behaviour_N, tokens.advantages_N, row_N, rows, threshold))
    return torch.stack(factors).prod(0) if factors else None
