"""Runs a decision on vLLM: makes its sampling parameters and checks the tokens that come back."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from services.inference.engine import EngineError
from services.inference.sequence import FreeState, ModelLimits, RunningSequence
from services.inference.token_masks import encode_sheet
from services.inference.vllm_backend.core import SHEET, VLLMCore
from services.inference.vllm_backend.lora_registry import Adapter


class Decoder:
    """Runs sequences on a vLLM core."""

    def __init__(self, core: VLLMCore, limits: ModelLimits) -> None:
        self._core = core
        self._limits = limits
        self._numbers = itertools.count(1)

    async def decode(self, sequence: RunningSequence, adapter: Adapter | None) -> int:
        """Complete the sequence with the loaded weights and an adapter, if any; return the prompt tokens found cached.

        Raises:
            EngineError: vLLM refused the request or is dead, or its tokens are not what the mask and the weights allow.
        """
        output = await self._core.generate(
            f"decision-{next(self._numbers)}",
            list(sequence.pending),
            self._parameters(sequence),
            None if adapter is None else adapter.request,
        )
        tokens, logprobs = output.token_ids, output.logprobs
        position = 0
        while not sequence.over:
            if position >= len(tokens):
                raise EngineError(f"vLLM stopped after {len(tokens)} tokens, before the sheet was complete")
            sequence.accept(tokens[position], logprobs[position], sequence.state.admissible())
            if sequence.failure is not None:
                raise EngineError(f"the order sheet cannot be completed: {sequence.failure}")
            found = tokens[position : position + len(sequence.pending)]
            if not sequence.over and found != sequence.pending:
                raise EngineError(f"vLLM wrote {found} where only {sequence.pending} could follow")
            position += len(sequence.pending)
        if not np.isfinite(logprobs).all():
            policy = sequence.request.policy
            raise EngineError(f"log-probabilities of a {policy!r} decision are not finite: its weights are damaged")
        return output.cached_tokens

    def _parameters(self, sequence: RunningSequence) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        request, constraint = sequence.request, sequence.request.constraint
        if constraint is None:
            assert isinstance(sequence.state, FreeState)
            ends, extra, limit = sorted(self._limits.end_ids), None, sequence.state.left
        else:
            ends, extra, limit = [constraint.end_id], {SHEET: encode_sheet(constraint)}, constraint.longest
        return SamplingParams(
            temperature=request.temperature,
            seed=request.seed & 0x7FFF_FFFF_FFFF_FFFF,
            max_tokens=limit,
            stop_token_ids=ends,
            logprobs=0,  # that of the sampled token alone
            flat_logprobs=True,
            detokenize=False,
            extra_args=extra,
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_clone=True,
        )
