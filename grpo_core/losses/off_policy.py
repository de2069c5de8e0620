"""Weights and masks that correct for a behaviour policy with other kernels, precision or age than the trainer.

They have no gradient. Axes as in ``ratios``.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from grpo_core.losses.ratios import turn_mean, turn_sum

ImportanceMode = Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]


@torch.no_grad()
def importance_weights(
    proximal_N: Tensor,
    behaviour_N: Tensor,
    row_N: Tensor,
    rows: int,
    mode: ImportanceMode | None,
    clip_min: float | None,
    clip_max: float | None,
) -> Tensor:
    """Return weights ``w = exp(proximal lp - behaviour lp)``, shape (N,), without gradient.

    With ``mode`` None each token has its ``w``, as in decoupled PPO (arXiv 2110.00641; AReaL, arXiv 2505.24298).
    ``*_truncate`` clamps to [clip_min, clip_max]; ``*_mask`` sets weights outside that range to 0. ``sequence_*`` uses
    one weight for a turn, the ratio of the whole turn's probabilities.
    """
    gap_N = proximal_N - behaviour_N
    if mode in ("sequence_truncate", "sequence_mask"):
        gap_N = turn_sum(gap_N, row_N, rows)
    weight_N = gap_N.exp()
    if mode is None:
        return weight_N
    bounded_N = weight_N.clamp(clip_min, clip_max)
    if mode in ("token_truncate", "sequence_truncate"):
        return bounded_N
    return weight_N.masked_fill(bounded_N != weight_N, 0.0)


@torch.no_grad()
def off_policy_mask(
    logprobs_N: Tensor, behaviour_N: Tensor, advantages_N: Tensor, row_N: Tensor, rows: int, threshold: float
) -> Tensor:
    """Return 1 for kept tokens and 0 for tokens of dropped turns, shape (N,).

    A turn is dropped if its advantage is negative and its mean ``behaviour lp - lp`` exceeds ``threshold`` nats: the
    policy has already unlearned that mistake (DeepSeek-V3.2, arXiv 2512.02556).
    """
    moved_N = turn_mean(behaviour_N - logprobs_N, row_N, rows)
    return ((advantages_N >= 0) | (moved_N <= threshold)).to(logprobs_N.dtype)
