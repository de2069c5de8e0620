"""Checks that an engine computes what the learner does, before it uses new weights.

A probe detects weights of another policy, layers that were not replaced and a stale head. It cannot detect a swap that
had no effect where one update changes the policy by less than rounding does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from grpo_core.models.weight_probe import compare
from grpo_core.types import Probe
from services.inference.engine import Generation, GenerationRequest


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Differences of log-probabilities that rounding over a few dozen layers explains."""

    each: float  # for one token
    mean: float  # over all tokens of a probe


TOLERANCES = {"float32": Tolerance(3e-4, 1e-4), "float16": Tolerance(0.05, 0.02), "bfloat16": Tolerance(0.25, 0.08)}


def probe_requests(probe: Probe, policy: str) -> list[GenerationRequest]:
    """Make greedy free-text decisions of the probe's prompts."""
    return [
        GenerationRequest(prompt, None, seed=0, temperature=0.0, max_completion_length=len(tokens), policy=policy)
        for prompt, tokens in zip(probe.prompts, probe.tokens, strict=True)
    ]


def parity_error(probe: Probe, answers: Sequence[Generation], policy: str, version: int, dtype: str) -> str | None:
    """Explain in one line why these weights are refused; None where engine and learner agree.

    The coarser tolerance of ``dtype``, the engine's number format such as ``bfloat16``, and of the learner's applies.
    """
    tolerance = max((TOLERANCES[dtype], TOLERANCES[probe.numbers]), key=lambda allowed: allowed.each)
    difference = _difference(probe, answers, tolerance)
    return difference and (
        f"weights of {policy!r} version {version} were refused: the engine does not compute what the learner "
        f"does ({difference}); the old weights stay in use"
    )


def _difference(probe: Probe, answers: Sequence[Generation], tolerance: Tolerance) -> str | None:
    gaps: list[float] = []
    for number, answer in enumerate(answers):
        found = compare(probe, number, answer.completion_ids.tolist(), answer.logprobs.tolist(), tolerance.each)
        if isinstance(found, str):
            return found
        gaps += found
    mean = fmean(gaps)
    if mean <= tolerance.mean:
        return None
    return (
        f"log-probabilities differ by {mean:.5f} in the mean, token by token {' '.join(f'{gap:.1e}' for gap in gaps)}"
    )
