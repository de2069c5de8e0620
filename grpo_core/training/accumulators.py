"""Sums of an update over its micro-batches and over the ranks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_core.batching.microbatches import MicroBatch
from grpo_core.losses.diagnostics import DIAGNOSTICS
from grpo_core.models.fsdp import Sharding

_MAXIMA = np.array([name.endswith("_max") for name in DIAGNOSTICS])
_GAP = DIAGNOSTICS.index("gap_max")


class UpdateAccumulators:
    """Token diagnostics and pass sizes of one update."""

    def __init__(self) -> None:
        self.diagnostics: NDArray[np.float64] = np.zeros(len(DIAGNOSTICS))  # named by DIAGNOSTICS
        self.fresh_gap: float | None = None  # largest |lp - behaviour lp| of turns sampled by exactly these weights
        self.tokens = 0  # input tokens
        self.computed = 0  # those that went through the model: a shared prompt did once
        self.padded = 0  # the same with padding

    def add(self, micro: MicroBatch, seen: NDArray[np.float64]) -> None:
        """Add a micro-batch and its ``token_diagnostics``."""
        if micro.fresh:
            self.fresh_gap = max(self.fresh_gap or 0.0, float(seen[_GAP]))
        self.diagnostics = np.where(_MAXIMA, np.maximum(self.diagnostics, seen), self.diagnostics + seen)
        self.tokens += micro.tokens
        self.computed += micro.computed
        self.padded += micro.padded

    def gather(self, sharding: Sharding) -> None:
        """Replace this rank's numbers by those of all ranks together."""
        added = sharding.total(np.array([*self.diagnostics, self.tokens, self.computed, self.padded]))
        gap = -1.0 if self.fresh_gap is None else self.fresh_gap
        highest = sharding.largest(np.array([*self.diagnostics, gap]))
        self.diagnostics = np.where(_MAXIMA, highest[:-1], added[:-3])
        self.tokens, self.computed, self.padded = map(int, added[-3:])
        self.fresh_gap = None if highest[-1] < 0 else float(highest[-1])

    @property
    def named(self) -> dict[str, float]:
        """The diagnostics by name."""
        return dict(zip(DIAGNOSTICS, self.diagnostics.tolist(), strict=True))

    @property
    def metrics(self) -> dict[str, float]:
        """Flat numbers for the log; ``fresh_logprob_gap`` only if a turn was sampled by exactly these weights."""
        padding = 1 - self.computed / self.padded if self.padded else 0.0
        metrics = {"input_tokens": float(self.tokens), "padding_fraction": padding}
        return metrics if self.fresh_gap is None else metrics | {"fresh_logprob_gap": self.fresh_gap}
