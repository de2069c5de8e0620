"""Importance ratios of sampled tokens, alone or over a whole turn.

Axis: N trained tokens, ``row_N`` the turn each belongs to, 0 <= row < rows. A turn is what other systems call a
sequence or completion: one prompt and the tokens sampled after it. Forced and observed tokens are in no ratio.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

RatioLevel = Literal["token", "turn_mean", "turn_sum"]


def turn_sum(values_N: Tensor, row_N: Tensor, rows: int) -> Tensor:
    """Each token's turn's sum, shape (N,); differentiable."""
    return values_N.new_zeros(rows).index_add(0, row_N, values_N)[row_N]


def turn_mean(values_N: Tensor, row_N: Tensor, rows: int) -> Tensor:
    """Each token's turn's mean, shape (N,); differentiable."""
    return turn_sum(values_N, row_N, rows) / turn_sum(torch.ones_like(values_N), row_N, rows)


def log_ratios(logprobs_N: Tensor, old_N: Tensor, row_N: Tensor, rows: int, level: RatioLevel) -> Tensor:
    """Logarithm of the importance ratio that multiplies each token's advantage, shape (N,); differentiable.

    ``token``: ``lp - old lp`` (PPO, arXiv 1707.06347). ``turn_mean``: its mean over the turn, so that all tokens of
    a turn share one length-normalised ratio (GSPO, arXiv 2507.18071; TRL's level ``sequence``). ``turn_sum``: the
    ratio of the whole turn's probability (RLOO, arXiv 2402.14740, where the completion is one action).
    """
    gap_N = logprobs_N - old_N
    if level == "token":
        return gap_N
    return turn_mean(gap_N, row_N, rows) if level == "turn_mean" else turn_sum(gap_N, row_N, rows)
