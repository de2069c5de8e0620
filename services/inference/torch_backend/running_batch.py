"""One set of weights and the decisions that are being generated under it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from services.inference.engine import Generation
from services.inference.sampling import sample, uniforms
from services.inference.sequence import RunningSequence
from services.inference.torch_backend.kv_cache import KvCache
from services.inference.torch_backend.model_runner import ModelRunner
from services.inference.torch_backend.prefix_scorer import PrefixScorer
from services.inference.torch_backend.ragged_pass import plan_pass


@dataclass(slots=True, eq=False)
class QueuedSequence(RunningSequence):
    """A sequence with the future that its caller waits for."""

    answer: asyncio.Future[Generation] = field(kw_only=True)

    @property
    def over(self) -> bool:
        """Whether the sequence is over or its caller has stopped waiting."""
        return self.state.finished or self.failure is not None or self.answer.done()


class RunningBatch:
    """Rows 0 to n-1 of a KV cache of its own, one per decision; the last row takes the place of a finished one."""

    def __init__(self, runner: ModelRunner, weights: Mapping[str, Tensor], version: int) -> None:
        self.version = version
        self._runner = runner
        self._weights = runner.prepare(weights)
        self._cache = KvCache(runner.layers)
        self._rows: list[QueuedSequence] = []

    def __len__(self) -> int:
        return len(self._rows)

    def step(self, joining: Sequence[QueuedSequence], tokens_per_pass: int) -> list[QueuedSequence]:
        """Feed the pending tokens of all rows and the prompts of ``joining``, and sample the next choice of each.

        Prompts are sorted by length, so that those attended to together are about equally long. Where they exceed
        ``tokens_per_pass``, they take passes of their own; the last ones share the pass of the running rows. Equal
        prompts, as at the beginning of the games of a block, are fed once and copied. Returns the sequences that are
        over; they have left the batch.
        """
        ordered = sorted(joining, key=lambda sequence: (len(sequence.pending), sequence.pending))
        waiting = [list(equal) for _, equal in groupby(ordered, key=lambda sequence: sequence.pending)]
        finished: list[QueuedSequence] = []
        sources: list[int] = []
        while waiting:
            chunk = 1
            while chunk < len(waiting) and len(waiting[chunk][0].pending) * (chunk + 1) <= tokens_per_pass:
                chunk += 1
            first_row = len(self._rows)
            self._rows += [equal[0] for equal in waiting[:chunk]]
            self._rows += [sequence for equal in waiting[:chunk] for sequence in equal[1:]]
            sources = [first_row + index for index, equal in enumerate(waiting[:chunk]) for _ in equal[1:]]
            del waiting[:chunk]
            if waiting:
                self._advance(first_row, sources)
                sources = []
                finished += self._release()
        self._advance(0, sources)
        return finished + self._release()

    def scorer(self, context: int) -> PrefixScorer:
        """Return a scorer of texts of at most ``context`` tokens under these weights."""
        return PrefixScorer(self._runner, self._weights, context)

    def abandon(self) -> list[QueuedSequence]:
        """Empty the batch and return its unfinished sequences."""
        rows, self._rows = self._rows, []
        return rows

    def _advance(self, first_row: int, sources: Sequence[int]) -> None:
        """Run one pass over the rows from ``first_row`` on; the last ``len(sources)`` copy what those rows are fed."""
        rows = self._rows[first_row:]
        fed = rows[: len(rows) - len(sources)]
        counts = np.fromiter((len(row.pending) for row in fed), np.int64, len(fed))
        starts = np.fromiter((row.fed for row in fed), np.int64, len(fed))
        self._cache.reserve(len(self._rows), int((starts + counts).max()))
        runner = self._runner
        ragged_pass = plan_pass(self._cache, first_row, starts, counts, runner.device, runner.dtype)
        input_ids = torch.tensor([token for row in fed for token in row.pending], device=runner.device)
        logits = runner.logits(self._weights, input_ids, ragged_pass).float().cpu().numpy()
        if sources:
            for target, source in enumerate(sources, first_row + len(fed)):
                self._cache.move(source, target, len(self._rows[source].pending))
            logits = logits[[*range(len(fed)), *(source - first_row for source in sources)]]
        admissible = [row.state.admissible() for row in rows]
        temperatures = np.array([row.request.temperature for row in rows], np.float64)
        streams = np.array([row.stream for row in rows], np.uint64)
        counters = np.array([row.sampled for row in rows], np.uint64)
        tokens, logprobs = sample(logits, admissible, temperatures, uniforms(streams, counters))
        for row, token, logprob, ids in zip(rows, tokens.tolist(), logprobs.tolist(), admissible, strict=True):
            row.accept(token, logprob, ids)

    def _release(self) -> list[QueuedSequence]:
        rows = self._rows
        places = [place for place, row in enumerate(rows) if row.over]
        over = [rows[place] for place in places]
        for place in reversed(places):  # so that the last row is never one that is over, but for itself
            last = rows.pop()
            if place < len(rows):
                self._cache.move(len(rows), place, last.fed)
                rows[place] = last
        return over
