"""Next-token probabilities of many texts that begin alike: the keys and values of what they share are computed once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from services.inference.engine import EngineError
from services.inference.scoring import logprobs_among
from services.inference.torch_backend.kv_cache import KvCache
from services.inference.torch_backend.model_runner import ModelRunner, Prepared
from services.inference.torch_backend.ragged_pass import plan_pass

_ROWS = 32  # texts of one pass, fewer of long ones
_TOKENS = 8192  # of the texts of one pass together; it bounds the memory of their keys and values
_NO_TOKEN = -1


class PrefixScorer:
    """Implements ``scoring.Scorer`` over weights that a running batch has prepared.

    It keeps the keys and values of the latest texts, so each call feeds only what they do not cover.
    """

    def __init__(self, runner: ModelRunner, weights: Prepared, context: int) -> None:
        """``context`` is the most tokens that a text may have."""
        self._runner = runner
        self._weights = weights
        self._context = context
        self._cache = KvCache(runner.layers)
        self._cached: NDArray[np.int32] = np.full((_ROWS, 64), _NO_TOKEN, np.int32)  # the texts of the cache's rows

    async def logprobs(
        self, texts: Sequence[tuple[int, ...]], admissible: Sequence[NDArray[np.int32]], temperature: float
    ) -> list[NDArray[np.float64]]:
        """See ``Scorer.logprobs``; other tasks of the loop run between passes."""
        arrays = [np.array(text, np.int32) for text in texts]
        self._check(arrays)
        found: list[NDArray[np.float64]] = []
        rows = max(1, min(_ROWS, _TOKENS // max(map(len, arrays), default=1)))
        for start in range(0, len(arrays), rows):
            some = arrays[start : start + rows]
            with torch.inference_mode():
                logits = self._logits(some)
            ids = admissible[start : start + rows]
            found += [logprobs_among(row, each, temperature) for row, each in zip(logits, ids, strict=True)]
            await asyncio.sleep(0)
        return found

    def _check(self, texts: Sequence[NDArray[np.int32]]) -> None:
        longest = max(map(len, texts), default=0)
        if longest > self._context:
            raise EngineError(f"a text of {longest} tokens does not fit the context of {self._context}")
        if any(not len(text) for text in texts) or len({int(text[0]) for text in texts}) > 1:
            raise ValueError("texts to score must begin with the same token")
        if longest > self._cached.shape[1]:
            wider = np.full((_ROWS, longest), _NO_TOKEN, np.int32)
            wider[:, : self._cached.shape[1]] = self._cached
            self._cached = wider

    def _logits(self, texts: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """Return the logits (B, V) after each of at most ``_ROWS`` texts."""
        if len(texts) == 1:
            return self._feed(texts)
        shared = texts[0][: min(map(len, texts)) - 1]
        for text in texts[1:]:
            shared = shared[: _common(text[None, : len(shared)], shared)[0]]
        if not len(shared):  # one of them has no more than the first token
            return np.concatenate([self._feed([text]) for text in texts])
        if self._source(shared)[1] < len(shared):
            self._feed([shared])  # once, for all of them
        return self._feed(texts)

    def _source(self, text: NDArray[np.int32]) -> tuple[int, int]:
        """Return the row whose text begins most like ``text``, and how many tokens they share."""
        common = _common(self._cached[:, : len(text)], text)
        row = int(common.argmax())
        return row, int(common[row])

    def _feed(self, texts: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """Run one pass over what the cache lacks of each text, of several of which it has a part; return the logits."""
        sources = [self._source(text[:-1]) for text in texts]
        rows = self._placed(texts, sources)
        ordered = [texts[index] for index in rows]
        # The last token is always fed: its logits are wanted.
        starts = np.array([sources[index][1] for index in rows], np.int64)
        counts = np.array([len(text) for text in ordered], np.int64) - starts
        ragged_pass = plan_pass(self._cache, 0, starts, counts, self._runner.device, self._runner.dtype)
        fed = np.concatenate([text[start:] for text, start in zip(ordered, starts, strict=True)])
        input_ids = torch.from_numpy(fed.astype(np.int64)).to(self._runner.device)
        logits = self._runner.logits(self._weights, input_ids, ragged_pass).float().cpu().numpy()
        for row, text in enumerate(ordered):
            self._cached[row, : len(text)] = text
            self._cached[row, len(text) :] = _NO_TOKEN
        result: NDArray[np.float32] = logits[np.argsort(rows)]
        return result

    def _placed(self, texts: Sequence[NDArray[np.int32]], sources: Sequence[tuple[int, int]]) -> list[int]:
        """Give each text one of the first rows, with what it shares with its source; return the texts by row.

        A text takes its source's row where it can; the others get copies. A free row is no text's source, so that no
        copy destroys what another one needs.
        """
        self._cache.reserve(len(texts), max(map(len, texts)))
        placed: dict[int, int] = {}  # row -> text
        for index, (source, common) in enumerate(sources):
            if common and source < len(texts):
                placed.setdefault(source, index)
        taken = set(placed.values())
        waiting = (index for index in range(len(texts)) if index not in taken)
        free = [row for row in range(len(texts)) if row not in placed]
        for row, index in zip(free, waiting, strict=True):
            placed[row] = index
            self._cache.move(sources[index][0], row, sources[index][1])
        return [placed[row] for row in range(len(texts))]


def _common(rows: NDArray[np.int32], text: NDArray[np.int32]) -> NDArray[np.intp]:
    """Return how many first tokens each of ``rows`` (R, T) shares with ``text`` (T,)."""
    if not len(text):
        return np.zeros(len(rows), np.intp)
    different = rows != text
    first = different.argmax(axis=1)
    shared: NDArray[np.intp] = np.where(different.any(axis=1), first, len(text))
    return shared
