"""The policy loss: a clipped surrogate on recorded behaviour log-probabilities, and what to watch beside it.

Axis: N trained tokens, in any order; everything is pointwise over N, so it does not matter how they are batched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Normalizer = Literal["token", "turn", "episode"]


def clipped_surrogate(
    logprobs_N: Tensor, behaviour_N: Tensor, advantages_N: Tensor, epsilon: float, epsilon_high: float
) -> Tensor:
    """``-min(rho A, clip(rho, 1 - epsilon, 1 + epsilon_high) A)``, ``rho = exp(lp - behaviour lp)``; shape (N,).

    PPO's surrogate (arXiv 1707.06347) with DAPO's separate upper range (arXiv 2503.14476).
    """
    ratio = torch.exp(logprobs_N - behaviour_N)
    clipped = ratio.clamp(1 - epsilon, 1 + epsilon_high)
    return -torch.minimum(ratio * advantages_N, clipped * advantages_N)


def turn_token_weights(
    normalizer: Normalizer, trained_tokens: Sequence[int], episodes: Sequence[int]
) -> NDArray[np.float64]:
    """Weight of one trained token of each turn, shape (turns,); over all trained tokens the weights sum to 1.

    ``token``: every trained token weighs the same, so long games weigh more. ``turn``: every turn weighs the same
    (the mean of its token mean). ``episode``: every episode weighs the same (the mean of its tokens' mean).

    Args:
        normalizer: what weighs equally.
        trained_tokens: trained tokens of each turn; turns without any weigh nothing and count for nothing.
        episodes: the episode each turn belongs to, any integers.
    """
    counts = np.asarray(trained_tokens, np.float64)
    present = counts > 0
    weights = np.zeros(len(counts), np.float64)
    if not present.any():
        return weights
    if normalizer == "token":
        weights[present] = 1.0 / counts.sum()
    elif normalizer == "turn":
        weights[present] = 1.0 / (counts[present] * present.sum())
    else:
        _, owner = np.unique(np.asarray(episodes)[present], return_inverse=True)
        tokens_per_episode = np.bincount(owner, weights=counts[present])
        weights[present] = 1.0 / (tokens_per_episode[owner] * len(tokens_per_episode))
    return weights


#: Sums that ``token_diagnostics`` returns, in order; ``ratio_max`` and ``gap_max`` are maxima instead.
DIAGNOSTICS = ("tokens", "ratio", "ratio_max", "clipped_low", "clipped_high", "kl", "entropy", "gap_max")


@torch.no_grad()
def token_diagnostics(
    logprobs_N: Tensor,
    behaviour_N: Tensor,
    advantages_N: Tensor,
    entropy_N: Tensor,
    epsilon: float,
    epsilon_high: float,
) -> Tensor:
    """One vector of sums over tokens named by ``DIAGNOSTICS``, shape (8,), float64.

    ``kl`` is k3 (Schulman's estimator) of the learner from the behaviour policy, ``exp(d) - d - 1`` with
    ``d = lp - behaviour lp``: tokens come from the behaviour policy, so its mean estimates KL(behaviour || learner).
    ``clipped_*`` count tokens whose gradient the clip removed; ``gap_max`` is the largest |d|.
    """
    gap = (logprobs_N - behaviour_N).double()
    ratio = gap.exp()
    low = (ratio < 1 - epsilon) & (advantages_N < 0)
    high = (ratio > 1 + epsilon_high) & (advantages_N > 0)
    return torch.stack(
        [
            torch.tensor(float(len(gap)), dtype=torch.float64, device=gap.device),
            ratio.sum(),
            ratio.max(),
            low.sum().double(),
            high.sum().double(),
            (ratio - gap - 1).sum(),
            entropy_N.double().sum(),
            gap.abs().max(),
        ]
    )
