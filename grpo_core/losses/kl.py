"""Estimators of KL(policy || reference) from one sampled token each. Axis: N trained tokens."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

KLEstimator = Literal["k1", "k2", "k3"]


def kl_estimates(logprobs_N: Tensor, reference_N: Tensor, estimator: KLEstimator) -> Tensor:
    """Estimate the KL of each token in nats, shape (N,), with ``d = reference lp - lp``; differentiable.

    ``k1``: ``-d``, unbiased, of either sign. ``k2``: ``d^2 / 2``, biased, never negative. ``k3``: ``exp(d) - d - 1``,
    unbiased and never negative (J. Schulman, "Approximating KL divergence", 2020; GRPO's penalty). The gradient of k1
    alone is 0 in expectation; multiplied by the importance ratio, the gradients of k1 and k3 are those of the reverse
    KL (DeepSeek-V3.2, arXiv 2512.02556).
    """
    gap_N = reference_N - logprobs_N
    if estimator == "k1":
        return -gap_N
    if estimator == "k2":
        return gap_N.square() / 2
    return gap_N.exp() - gap_N - 1
