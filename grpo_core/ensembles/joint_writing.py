"""One text that several agents write together: each token is chosen by the mean of their distributions.

Axes: A agents (>= 1), V vocabulary, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# An agent: the tokens written so far -> its logits (V,) of the next one. Its own prompt comes before them.
NextToken = Callable[[Sequence[int]], Tensor]


@dataclass(frozen=True, slots=True)
class JointText:
    """A text of all agents, with the log-probability of each token under the mean distribution."""

    ids: tuple[int, ...]  # (T,)
    logprobs: tuple[float, ...]  # (T,)


def mean_distribution(logits_AV: Tensor) -> Tensor:
    """Return the mean of the agents' probabilities, (V,) in float64: of probabilities, not of logits."""
    return logits_AV.double().softmax(1).mean(0)


def write_together(agents: Sequence[NextToken], advance: Callable[[int], bool]) -> JointText:
    """Append the likeliest token under the mean distribution, the lowest id of equals, until ``advance`` says stop.

    ``advance`` is told each token, and returns whether the text is over with it.

    Raises:
        FloatingPointError: an agent's logits are not finite.
    """
    ids: list[int] = []
    logprobs: list[float] = []
    over = False
    with torch.inference_mode():
        while not over:
            mean_V = mean_distribution(torch.stack([agent(ids) for agent in agents])).cpu()
            likeliest = float(mean_V.max())
            if not math.isfinite(likeliest):
                raise FloatingPointError("an agent's logits are not finite: its weights are damaged or have diverged")
            token = int((mean_V == likeliest).nonzero()[0])
            ids.append(token)
            logprobs.append(math.log(likeliest))
            over = advance(token)
    return JointText(tuple(ids), tuple(logprobs))
