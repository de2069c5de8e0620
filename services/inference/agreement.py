"""Asking an engine to show that it computes what the learner does, before its new weights are used."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_core.probe import Probe, disagreement
from services.inference.engine import Generation, GenerationRequest

# Log-probability that a probe may differ by: rounding of the number format over a few layers.
TOLERANCE = {"float32": 3e-4, "bfloat16": 0.25, "float16": 0.05}


def probe_requests(probe: Probe, policy: str) -> list[GenerationRequest]:
    """The probe's prompts as greedy free-text decisions."""
    return [
        GenerationRequest(prompt, None, seed=0, temperature=0.0, max_completion_length=len(tokens), policy=policy)
        for prompt, tokens in zip(probe.prompts, probe.tokens, strict=True)
    ]


def refusal(probe: Probe, answers: Sequence[Generation], policy: str, version: int, tolerance: float) -> str | None:
    """Why these weights are refused, in one line; None where engine and learner agree.

    ``tolerance`` is the engine's; a learner that computes more coarsely is allowed its own.
    """
    tolerance = max(tolerance, TOLERANCE.get(probe.numbers, 0.0))
    for number, answer in enumerate(answers):
        wrong = disagreement(probe, number, answer.completion_ids.tolist(), answer.logprobs.tolist(), tolerance)
        if wrong is not None:
            return (
                f"weights of {policy!r} version {version} were refused: the engine does not compute what the learner "
                f"does ({wrong}); the old weights stay in use"
            )
    return None
