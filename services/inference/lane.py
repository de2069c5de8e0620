"""One set of weights and the decisions being written under it: their prefill, their steps, their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from grpo_core.models import named_tensors
from services.inference.decoding import Writing
from services.inference.fast_linear import use_fast_linear
from services.inference.kv_cache import KvCache
from services.inference.last_layer import narrow_last_layer
from services.inference.ragged_attention import RAGGED_ATTENTION
from services.inference.ragged_pass import plan_pass
from services.inference.sampling import sample, uniforms


class Skeleton:
    """A transformers causal LM that runs under whichever lane's weights; nobody else may use it meanwhile."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model.eval()
        self.model.requires_grad_(False)
        model.set_attn_implementation(RAGGED_ATTENTION)
        use_fast_linear(model)
        self.predicting = narrow_last_layer(model)
        self.tensors: Mapping[str, Tensor] = named_tensors(model)
        self.vocab_size = int(model.get_output_embeddings().weight.shape[0])
        self.layers = int(model.config.num_hidden_layers)
        self.device = model.device
        self.dtype = model.dtype
        self._dressed_in: object = None

    def dress(self, weights: Mapping[str, Tensor]) -> PreTrainedModel:
        """The model with these weights (same names and shapes); pointers are set, nothing is copied."""
        if self._dressed_in is not weights:
            for name, tensor in self.tensors.items():
                tensor.data = weights[name]
            self._dressed_in = weights
        return self.model


class Lane:
    """Rows 0 to n-1 of a cache of its own, one a decision; the last row takes a finished one's place."""

    def __init__(self, skeleton: Skeleton, weights: Mapping[str, Tensor], version: int) -> None:
        self.version = version
        self._skeleton = skeleton
        self._weights = weights
        self._cache = KvCache(skeleton.layers)
        self._rows: list[Writing] = []

    def __len__(self) -> int:
        return len(self._rows)

    def step(self, joining: Sequence[Writing], tokens_per_pass: int) -> list[Writing]:
        """Feed what every row has pending, prompts of ``joining`` included, and sample each one's next choice.

        Prompts join shortest first, so that those attended to together are of about one length; where they are many,
        passes of ``tokens_per_pass`` go ahead and the last ones share the pass of the rows that go on.

        Returns:
            Those that are over, which have left.
        """
        waiting = sorted(joining, key=lambda writing: len(writing.pending))
        finished: list[Writing] = []
        while waiting:
            chunk = 1
            while chunk < len(waiting) and len(waiting[chunk].pending) * (chunk + 1) <= tokens_per_pass:
                chunk += 1
            first_row = len(self._rows)
            self._rows += waiting[:chunk]
            del waiting[:chunk]
            if waiting:
                self._advance(first_row)
                finished += self._release()
        self._advance(0)
        return finished + self._release()

    def abandon(self) -> list[Writing]:
        """Empty the lane; gives what was being written."""
        rows, self._rows = self._rows, []
        return rows

    def _advance(self, first_row: int) -> None:
        rows = self._rows[first_row:]
        counts = np.fromiter((len(row.pending) for row in rows), np.int64, len(rows))
        starts = np.fromiter((row.fed for row in rows), np.int64, len(rows))
        self._cache.reserve(len(self._rows), int((starts + counts).max()))
        skeleton = self._skeleton
        ragged_pass = plan_pass(self._cache, first_row, starts, counts, skeleton.device, skeleton.dtype)
        input_ids = torch.tensor([[token for row in rows for token in row.pending]], device=skeleton.device)
        skeleton.predicting.positions = ragged_pass.predicting
        logits = skeleton.dress(self._weights)(
            input_ids=input_ids,
            position_ids=ragged_pass.position_ids,
            use_cache=False,
            logits_to_keep=ragged_pass.predicting,
            ragged_pass=ragged_pass,
        ).logits[0]
        admissible = [row.state.admissible() for row in rows]
        tokens, logprobs = sample(
            logits.float().cpu().numpy(),
            admissible,
            np.fromiter((row.request.temperature for row in rows), np.float64, len(rows)),
            uniforms(
                np.fromiter((row.stream for row in rows), np.uint64, len(rows)),
                np.fromiter((row.sampled for row in rows), np.uint64, len(rows)),
            ),
        )
        for row, token, logprob, ids in zip(rows, tokens.tolist(), logprobs.tolist(), admissible, strict=True):
            row.accept(token, logprob, ids)

    def _release(self) -> list[Writing]:
        rows = self._rows
        over = [row for row in rows if row.over]
        for index in range(len(rows) - 1, -1, -1):
            if rows[index].over:
                mover = rows.pop()
                if index < len(rows):
                    self._cache.move(len(rows), index, mover.fed)
                    rows[index] = mover
        return over
