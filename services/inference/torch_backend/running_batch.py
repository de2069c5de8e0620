"""One set of weights and the decisions being written under it: their prefill, their steps, their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from services.inference.sampling import sample, uniforms
from services.inference.sequence import RunningSequence
from services.inference.torch_backend.kv_cache import KvCache
from services.inference.torch_backend.model_runner import ModelRunner
from services.inference.torch_backend.ragged_pass import plan_pass


class RunningBatch:
    """Rows 0 to n-1 of a cache of its own, one a decision; the last row takes a finished one's place."""

    def __init__(self, skeleton: ModelRunner, weights: Mapping[str, Tensor], version: int) -> None:
        self.version = version
        self._skeleton = skeleton
        self._weights = skeleton.prepare(weights)
        self._cache = KvCache(skeleton.layers)
        self._rows: list[RunningSequence] = []

    def __len__(self) -> int:
        return len(self._rows)

    def step(self, joining: Sequence[RunningSequence], tokens_per_pass: int) -> list[RunningSequence]:
        """Feed what every row has pending, prompts of ``joining`` included, and sample each one's next choice.

        Prompts join shortest first, so that those attended to together are of about one length; where they are many,
        passes of ``tokens_per_pass`` go ahead and the last ones share the pass of the rows that go on. Equal prompts,
        as at the beginning of the games of a block, are fed once and copied.

        Returns:
            Those that are over, which have left.
        """
        ordered = sorted(joining, key=lambda writing: (len(writing.pending), writing.pending))
        waiting = [list(equal) for _, equal in groupby(ordered, key=lambda writing: writing.pending)]
        finished: list[RunningSequence] = []
        sources: list[int] = []
        while waiting:
            chunk = 1
            while chunk < len(waiting) and len(waiting[chunk][0].pending) * (chunk + 1) <= tokens_per_pass:
                chunk += 1
            first_row = len(self._rows)
            self._rows += [equal[0] for equal in waiting[:chunk]]
            self._rows += [writing for equal in waiting[:chunk] for writing in equal[1:]]
            sources = [first_row + index for index, equal in enumerate(waiting[:chunk]) for _ in equal[1:]]
            del waiting[:chunk]
            if waiting:
                self._advance(first_row, sources)
                sources = []
                finished += self._release()
        self._advance(0, sources)
        return finished + self._release()

    def abandon(self) -> list[RunningSequence]:
        """Empty the lane; gives what was being written."""
        rows, self._rows = self._rows, []
        return rows

    def _advance(self, first_row: int, sources: Sequence[int]) -> None:
        """One pass of the rows from ``first_row`` on; the last ``len(sources)`` copy what these rows are fed."""
        rows = self._rows[first_row:]
        fed = rows[: len(rows) - len(sources)]
        counts = np.fromiter((len(row.pending) for row in fed), np.int64, len(fed))
        starts = np.fromiter((row.fed for row in fed), np.int64, len(fed))
        self._cache.reserve(len(self._rows), int((starts + counts).max()))
        skeleton = self._skeleton
        ragged_pass = plan_pass(self._cache, first_row, starts, counts, skeleton.device, skeleton.dtype)
        input_ids = torch.tensor([token for row in fed for token in row.pending], device=skeleton.device)
        logits = skeleton.logits(self._weights, input_ids, ragged_pass).float().cpu().numpy()
        if sources:
            for target, source in enumerate(sources, first_row + len(fed)):
                self._cache.move(source, target, len(self._rows[source].pending))
            logits = logits[[*range(len(fed)), *(source - first_row for source in sources)]]
        admissible = [row.state.admissible() for row in rows]
        tokens, logprobs = sample(
            logits,
            admissible,
            np.fromiter((row.request.temperature for row in rows), np.float64, len(rows)),
            uniforms(
                np.fromiter((row.stream for row in rows), np.uint64, len(rows)),
                np.fromiter((row.sampled for row in rows), np.uint64, len(rows)),
            ),
        )
        for row, token, logprob, ids in zip(rows, tokens.tolist(), logprobs.tolist(), admissible, strict=True):
            row.accept(token, logprob, ids)

    def _release(self) -> list[RunningSequence]:
        rows = self._rows
        over = [row for row in rows if row.over]
        for index in range(len(rows) - 1, -1, -1):
            if rows[index].over:
                mover = rows.pop()
                if index < len(rows):
                    self._cache.move(len(rows), index, mover.fed)
                    rows[index] = mover
        return over
