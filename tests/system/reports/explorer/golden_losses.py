"""Random tokens, and the losses and gradients that grpo_core and autograd give them in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from grpo_core.losses.diagnostics import DIAGNOSTICS, token_diagnostics
from grpo_core.losses.policy_loss import LossTokens, TokenLosses, cispo, clipped_surrogate, token_losses
from grpo_core.losses.ratios import turn_sum
from grpo_core.settings import LearnerSettings

Plain = dict[str, Any]


def random_tokens(rng: np.random.Generator) -> Plain:
    """Tokens of a few turns in any order, with policies that are equal, near, or so far apart that ratios overflow."""
    count, rows = int(rng.integers(1, 40)), int(rng.integers(1, 7))
    row = rng.integers(0, rows, count)
    distance = rng.choice([0.0, 1e-3, 0.2, 1.0, 6.0, 400.0], p=[0.1, 0.2, 0.3, 0.3, 0.07, 0.03])
    behaviour = -rng.exponential(2, count)
    of_turns = rng.normal(size=rows) * (rng.random(rows) < 0.8)
    advantages = of_turns[row] if rng.random() < 0.8 else rng.normal(size=count)
    logprobs, proximal = (behaviour + distance * rng.normal(size=count) for _ in range(2))
    # No further away: in the gradient of a large k3 nearly all cancels, in autograd's numbers as well.
    reference = logprobs + min(distance, 2.0) * rng.normal(size=count)
    return {
        "logprobs": logprobs.tolist(),
        "entropy": rng.exponential(1, count).tolist(),
        "behaviour": behaviour.tolist(),
        "advantages": advantages.tolist(),
        "row": row.tolist(),
        "rows": rows,
        "proximal": proximal.tolist(),
        "reference": reference.tolist(),
    }


def expected_losses(tokens: Plain, learner: LearnerSettings) -> Plain:
    """The parts of each token's loss by name, each of shape (N,), and ``slope``, the gradient of their sum.

    ``sound`` are the tokens of turns whose losses are finite; elsewhere the gradient has no meaning.
    """
    given = {name: torch.tensor(values, dtype=torch.float64) for name, values in tokens.items() if name != "rows"}
    logprobs = given["logprobs"].requires_grad_()
    inputs = LossTokens(
        logprobs_N=logprobs,
        entropy_N=given["entropy"],
        behaviour_N=given["behaviour"],
        advantages_N=given["advantages"],
        row_N=given["row"].long(),
        rows=tokens["rows"],
        proximal_N=given["proximal"],
        reference_N=given["reference"],
    )
    losses = token_losses(inputs, learner)
    (slope,) = torch.autograd.grad(losses.loss_N.sum(), logprobs)
    overflows = turn_sum(losses.loss_N.detach().isfinite().logical_not().double(), inputs.row_N, inputs.rows)
    return {
        "loss": losses.loss_N.tolist(),
        "logRatio": losses.log_ratio_N.tolist(),
        "importance": None if losses.importance_N is None else losses.importance_N.tolist(),
        "kl": None if losses.kl_N is None else losses.kl_N.tolist(),
        "surrogate": _surrogate(inputs, losses, learner),
        "clipped": _clipped(inputs, losses, learner),
        "slope": slope.tolist(),
        "sound": torch.nonzero(overflows == 0).ravel().tolist(),
    }


def _surrogate(inputs: LossTokens, losses: TokenLosses, learner: LearnerSettings) -> list[float]:
    log_ratio, advantages = losses.log_ratio_N, inputs.advantages_N
    if learner.loss_type == "cispo":
        found = cispo(log_ratio, inputs.logprobs_N, advantages, learner.epsilon_high)
    else:
        found = clipped_surrogate(log_ratio, advantages, learner.epsilon, learner.epsilon_high, learner.delta)
    values: list[float] = found.tolist()
    return values


def _clipped(inputs: LossTokens, losses: TokenLosses, learner: LearnerSettings) -> list[str | None]:
    """The bound that clipped each token; their numbers are checked against those of ``token_diagnostics``."""
    ratio, loses = losses.log_ratio_N.exp(), inputs.advantages_N < 0
    one_sided = learner.loss_type == "cispo"
    highest = learner.epsilon_high if one_sided else 1 + learner.epsilon_high
    bounds = {
        "low": (ratio < 1 - learner.epsilon) & loses & (not one_sided),
        "high": (ratio > highest) & (inputs.advantages_N > 0),
        "dual": (ratio > (torch.inf if learner.delta is None else learner.delta)) & loses,
    }
    counts = dict(zip(DIAGNOSTICS, token_diagnostics(inputs, losses, learner).tolist(), strict=True))
    assert all(counts[f"clipped_{name}"] == int(clips.sum()) for name, clips in bounds.items())
    return [next((name for name, clips in bounds.items() if clips[token]), None) for token in range(len(ratio))]
