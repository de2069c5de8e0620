"""Sums of an update over its micro-batches, and over the processes that share them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_core.batching.microbatches import MicroBatch
from grpo_core.losses.diagnostics import DIAGNOSTICS
from grpo_core.models.fsdp import Sharding

_MAXIMA = np.array([name.endswith("_max") for name in DIAGNOSTICS])
_GAP = DIAGNOSTICS.index("gap_max")


class UpdateAccumulators:
    """Diagnostics of tokens, and sizes of the passes that saw them."""

    def __init__(self) -> None:
        self.diagnostics: NDArray[np.float64] = np.zeros(len(DIAGNOSTICS))  # named by DIAGNOSTICS
        self.fresh_gap: float | None = None  # largest |lp - behaviour lp| of turns these very weights had sampled
        self.tokens = 0  # read by the model
        self.padded = 0  # the same with padding

    def add(self, micro: MicroBatch, seen: NDArray[np.float64]) -> None:
        """Count a micro-batch with what ``token_diagnostics`` gave of it."""
        if micro.fresh:
            self.fresh_gap = max(self.fresh_gap or 0.0, float(seen[_GAP]))
        self.diagnostics = np.where(_MAXIMA, np.maximum(self.diagnostics, seen), self.diagnostics + seen)
        self.tokens += micro.tokens
        self.padded += micro.input_ids.numel()

    def gather(self, sharding: Sharding) -> None:
        """Make the numbers of this rank those of all."""
        added = sharding.total(np.array([*self.diagnostics, self.tokens, self.padded]))
        gap = -1.0 if self.fresh_gap is None else self.fresh_gap
        highest = sharding.largest(np.array([*self.diagnostics, gap]))
        self.diagnostics = np.where(_MAXIMA, highest[:-1], added[:-2])
        self.tokens, self.padded = int(added[-2]), int(added[-1])
        self.fresh_gap = None if highest[-1] < 0 else float(highest[-1])

    @property
    def named(self) -> dict[str, float]:
        """Diagnostics by name."""
        return dict(zip(DIAGNOSTICS, self.diagnostics.tolist(), strict=True))

    @property
    def metrics(self) -> dict[str, float]:
        """Flat numbers of the passes, for the log; without the gap where nothing was fresh."""
        metrics = {
            "input_tokens": float(self.tokens),
            "padding_fraction": 1 - self.tokens / self.padded if self.padded else 0.0,
        }
        if self.fresh_gap is not None:
            metrics["fresh_logprob_gap"] = self.fresh_gap
        return metrics
