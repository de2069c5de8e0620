"""Asking an engine to show that it computes what the learner does, before its new weights are used.

A probe finds weights of another policy, layers that were not renewed, a head left behind. It cannot find a swap that
did nothing where one update moves the policy by less than rounding does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from grpo_core.models.weight_probe import Probe, compare
from services.inference.engine import Generation, GenerationRequest


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Differences of log-probabilities that rounding over a few dozen layers explains."""

    each: float  # of one token
    mean: float  # over all tokens of a probe


TOLERANCES = {
    "float32": Tolerance(3e-4, 1e-4),
    "float16": Tolerance(0.05, 0.02),
    "bfloat16": Tolerance(0.25, 0.08),
}


def probe_requests(probe: Probe, policy: str) -> list[GenerationRequest]:
    """The probe's prompts as greedy free-text decisions."""
    return [
        GenerationRequest(prompt, None, seed=0, temperature=0.0, max_completion_length=len(tokens), policy=policy)
        for prompt, tokens in zip(probe.prompts, probe.tokens, strict=True)
    ]


def refusal(probe: Probe, answers: Sequence[Generation], policy: str, version: int, numbers: str) -> str | None:
    """Why these weights are refused, in one line; None where engine and learner agree.

    ``numbers`` is the engine's format, such as ``bfloat16``; a learner that computes more coarsely is allowed its own.
    """
    tolerance = max((TOLERANCES[numbers], TOLERANCES[probe.numbers]), key=lambda allowed: allowed.each)
    gaps: list[float] = []
    for number, answer in enumerate(answers):
        found = compare(probe, number, answer.completion_ids.tolist(), answer.logprobs.tolist(), tolerance.each)
        if isinstance(found, str):
            return _refused(policy, version, found)
        gaps += found
    if fmean(gaps) > tolerance.mean:
        return _refused(policy, version, f"log-probabilities differ by {fmean(gaps):.5f} in the mean")
    return None


def _refused(policy: str, version: int, what: str) -> str:
    return (
        f"weights of {policy!r} version {version} were refused: the engine does not compute what the learner "
        f"does ({what}); the old weights stay in use"
    )
