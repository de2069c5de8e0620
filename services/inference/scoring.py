"""Probabilities of what a policy may write next, without writing it: for insight into decisions, not for playing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


class Scorer(Protocol):
    """One version of a policy's weights: later swaps do not change what it computes."""

    async def logprobs(
        self, texts: Sequence[tuple[int, ...]], admissible: Sequence[NDArray[np.int32]], temperature: float
    ) -> list[NDArray[np.float64]]:
        """Return, for each text, the log-probability of each of its admissible ids as the next token.

        ``texts`` hold prompts with what is written so far and begin with the same token. ``admissible`` has a non-empty
        array of ids for each. Temperature 0 counts as 1, as in ``GenerationRequest``. Raises ``EngineError`` if a text
        does not fit the model's context, ``FloatingPointError`` for logits that are not finite.
        """
        ...


@runtime_checkable
class ScoringEngine(Protocol):
    """An engine that tells probabilities besides what it samples."""

    def scorer(self, policy: str) -> Scorer:
        """Return a scorer of a policy's present weights; raises ``EngineError`` if the policy is unknown."""
        ...


def logprobs_among(logits: NDArray[np.float32], ids: NDArray[np.int32], temperature: float) -> NDArray[np.float64]:
    """Return log softmax(logits / temperature) over ``ids`` alone; ``logits`` are (V,), the result is (len(ids),).

    Raises ``FloatingPointError`` for logits that are not finite.
    """
    scaled = logits[ids].astype(np.float64) / (temperature or 1.0)
    highest = scaled.max()
    if not np.isfinite(highest):
        raise FloatingPointError("the model's logits are not finite: its weights are damaged or have diverged")
    shifted = scaled - highest
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return result
