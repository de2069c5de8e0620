"""Importance ratios of sampled tokens or whole turns (a prompt and its completion, elsewhere called a sequence).

Axis: N trained tokens in any order; ``row_N`` is the turn of each, 0 <= row < rows. Forced tokens have no ratio.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

RatioLevel = Literal["token", "turn_mean", "turn_sum"]


def turn_sum(values_N: Tensor, row_N: Tensor, rows: int) -> Tensor:
    """Give each token the sum over its turn, shape (N,); differentiable."""
    return values_N.new_zeros(rows).index_add(0, row_N, values_N)[row_N]


def turn_mean(values_N: Tensor, row_N: Tensor, rows: int) -> Tensor:
    """Give each token the mean over its turn, shape (N,); differentiable."""
    return turn_sum(values_N, row_N, rows) / turn_sum(torch.ones_like(values_N), row_N, rows)


def log_ratios(logprobs_N: Tensor, old_N: Tensor, row_N: Tensor, rows: int, level: RatioLevel) -> Tensor:
    """Return the logarithm of the importance ratio of each token's advantage, shape (N,); differentiable.

    ``token``: ``lp - old lp`` (PPO, arXiv 1707.06347). ``turn_mean``: its mean over the turn, a length-normalised ratio
    for all the turn's tokens (GSPO, arXiv 2507.18071; TRL's level ``sequence``). ``turn_sum``: the ratio of the whole
    turn's probability (RLOO, arXiv 2402.14740, where the completion is one action).
    """
    gap_N = logprobs_N - old_N
    if level == "token":
        return gap_N
    return turn_mean(gap_N, row_N, rows) if level == "turn_mean" else turn_sum(gap_N, row_N, rows)
