"""What a small policy chooses: numbered actions under a mask, or vectors of numbers. Axes: N steps, A actions.

A distribution is what a network's head gives. Log-probabilities are of the actions as they were drawn: a vector that
lies outside its bounds is cut when it is carried out, not when it is judged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Distribution(Protocol):
    """The distribution of the action of each of N steps."""

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw an action for each step."""
        ...

    def logprobs(self, actions: Tensor) -> Tensor:
        """The log-probability (or log-density) of an action of each step, shape (N,), differentiable."""
        ...

    def entropy(self) -> Tensor:
        """The entropy in nats, shape (N,), differentiable."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Numbered:
    """One of A actions; ``logits_NA`` are -inf where an action is not legal."""

    logits_NA: Tensor

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw an action's number for each step, shape (N,), int64."""
        return torch.multinomial(self.logits_NA.softmax(-1), 1, generator=generator)[:, 0]

    def logprobs(self, actions: Tensor) -> Tensor:
        """See ``Distribution.logprobs``; ``actions`` are (N,), int64."""
        return self.logits_NA.log_softmax(-1).gather(1, actions[:, None])[:, 0]

    def entropy(self) -> Tensor:
        """See ``Distribution.entropy``."""
        logprobs_NA = self.logits_NA.log_softmax(-1)
        finite_NA = logprobs_NA.masked_fill(logprobs_NA == -math.inf, 0.0)  # 0 log 0 is 0, and has a gradient of 0
        return -(logprobs_NA.exp() * finite_NA).sum(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """A vector of A independent normal numbers; ``log_deviation_A`` is the same in all states."""

    mean_NA: Tensor
    log_deviation_A: Tensor

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw a vector for each step, shape (N, A)."""
        noise = torch.randn(self.mean_NA.shape, generator=generator)
        return self.mean_NA + noise * self.log_deviation_A.exp()

    def logprobs(self, actions: Tensor) -> Tensor:
        """See ``Distribution.logprobs``; ``actions`` are (N, A)."""
        scaled_NA = (actions - self.mean_NA) / self.log_deviation_A.exp()
        return (-0.5 * scaled_NA.square() - self.log_deviation_A - 0.5 * math.log(2 * math.pi)).sum(-1)

    def entropy(self) -> Tensor:
        """See ``Distribution.entropy``."""
        one = (self.log_deviation_A + 0.5 * math.log(2 * math.pi * math.e)).sum()
        return one.expand(len(self.mean_NA))
