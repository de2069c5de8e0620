"""Check with a few greedy tokens that an engine runs the weights the learner published."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from grpo_core.types import Probe


@torch.no_grad()
def make_probe(
    model: nn.Module,
    prompts: Sequence[Sequence[int]],
    length: int = 4,
    *,
    last_logits: Callable[[Tensor], Tensor] | None = None,
) -> Probe:
    """Decode ``length`` tokens greedily after each non-empty prompt with a causal LM in evaluation mode.

    ``last_logits`` computes the logits (V,) after ids (1, S) where the model cannot be called as it is.
    """
    device = next(model.parameters()).device

    def called(ids: Tensor) -> Tensor:
        logits: Tensor = model(input_ids=ids, logits_to_keep=1).logits[0, -1]
        return logits

    last = last_logits or called
    answers = []
    for prompt in prompts:
        ids = list(prompt)
        steps: list[tuple[int, float, float]] = []
        for _ in range(length):
            steps.append(_step(last(torch.tensor([ids], device=device))))
            ids.append(steps[-1][0])
        answers.append(tuple(zip(*steps, strict=True)))
    tokens, logprobs, leads = zip(*answers, strict=True)
    formats = {value.dtype for value in model.parameters() if value.is_floating_point()}
    coarsest = max(formats, key=lambda dtype: torch.finfo(dtype).eps)
    return Probe(tuple(map(tuple, prompts)), tokens, logprobs, leads, str(coarsest).removeprefix("torch."))


def compare(
    probe: Probe, number: int, tokens: Sequence[int], logprobs: Sequence[float], tolerance: float
) -> list[float] | str:
    """Compare an engine's greedy answer to prompt ``number`` with the learner's.

    Tokens are compared up to the first difference at a near-tie (a lead within ``tolerance``, in log-probability).

    Returns:
        Absolute differences of the log-probabilities; or a text of what differs if the weights must be different.
    """
    if not tokens:
        return f"no answer to probe {number}"
    gaps: list[float] = []
    expected = zip(probe.tokens[number], probe.logprobs[number], probe.leads[number], strict=True)
    for position, ((token, logprob, lead), found, value) in enumerate(zip(expected, tokens, logprobs, strict=False)):
        gap = abs(value - logprob)
        if not gap <= tolerance:  # true for NaN too
            return (
                f"log-probability {value:.5f} instead of the learner's {logprob:.5f} at token {position} of "
                f"probe {number}"
            )
        gaps.append(gap)
        if found != token:
            return gaps if lead <= tolerance else f"token {found} instead of {token} at {position} of probe {number}"
    return gaps


def _step(logits: Tensor) -> tuple[int, float, float]:
    """Return the likeliest token, its log-probability, and its lead over the second."""
    highest, ids = torch.log_softmax(logits.float(), dim=-1).topk(2)
    values = highest.tolist()
    return int(ids[0]), values[0], values[0] - values[1]
