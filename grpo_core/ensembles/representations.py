"""How alike agents are by the states that represent them. Axes: A agents (>= 1), H hidden size."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def cosine_similarities(states_AH: Tensor) -> Tensor:
    """Return the cosine of each pair of states, (A, A) in float64; a state of zeros is similar to none (0)."""
    unit_AH = F.normalize(states_AH.double(), dim=1)
    return (unit_AH @ unit_AH.T).clamp(-1, 1)


def mean_pairwise_cosine(states_AH: Tensor) -> float:
    """Return the mean cosine over all pairs of different agents, from -1 to 1. Raises ValueError for fewer than two."""
    count = len(states_AH)
    if count < 2:
        raise ValueError(f"{count} agents make no pair")
    return float(torch.triu(cosine_similarities(states_AH), diagonal=1).sum() / (count * (count - 1) / 2))


def most_central(states_AH: Tensor) -> int:
    """Return the agent whose mean cosine to the others is the highest, the first of equals; ValueError without any."""
    count = len(states_AH)
    if not count:
        raise ValueError("there is no agent")
    similar_AA = cosine_similarities(states_AH).fill_diagonal_(0)
    # Rounded, so that agents whose states are equal tie whatever the order of summation.
    means = [round(mean, 12) for mean in (similar_AA.sum(1) / max(count - 1, 1)).tolist()]
    return means.index(max(means))


def effective_rank(states_AH: Tensor) -> float:
    """Return how many directions the states use, from 1 to min(A, H).

    It is exp of the entropy (in nats) of the singular values divided by their sum (Roy and Vetterli, "The effective
    rank", EUSIPCO 2007). Raises ValueError where all states are zero.
    """
    values = torch.linalg.svdvals(states_AH.double())
    total = values.sum()
    if total == 0:
        raise ValueError("states of zeros have no effective rank")
    shares = values / total
    return float(torch.special.entr(shares).sum().exp())
