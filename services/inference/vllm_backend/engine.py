"""The production engine: vLLM under the very masks of the torch engine, on GPUs and on a CPU.

Policies are full weights or LoRA adapters over the weights the engine began with. Adapters are batched together with
their base; different full weights take turns (``weight_scheduler``). A swap takes effect between decisions, without a
restart; it is followed by a probe of the learner's own greedy tokens, which refuses weights that arrived wrong.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from grpo_core.errors import CheckpointError
from grpo_core.models.lora import adapter_config_of
from grpo_core.models.pretrained import read_payload
from grpo_core.models.weight_probe import Probe
from services.inference.constraints import encode_sheet
from services.inference.engine import LEARNER, EngineError, Generation, GenerationRequest
from services.inference.parity import probe_requests, refusal
from services.inference.sequence import FreeState, RunningSequence, begin_writing
from services.inference.vllm_backend.core import VLLMCore
from services.inference.vllm_backend.logits_processor import SHEET
from services.inference.vllm_backend.lora_registry import Adapter, LoraRegistry
from services.inference.vllm_backend.weight_scheduler import WeightScheduler

_COOLEST = 0.01  # temperature; vLLM raises lower ones to it, silently


@dataclass(frozen=True, slots=True, eq=False)
class FullWeights:
    """The weights of a whole model, kept so that they can be loaded again."""

    source: bytes | memoryview | Path  # safetensors bytes, or the folder the engine began with


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """What a name stands for at the moment."""

    version: int
    weights: FullWeights
    adapter: Adapter | None = None


class VLLMEngine:
    """Implements ``engine.Engine``; begins as the learner's version 0 with the weights of a folder."""

    def __init__(
        self,
        core: VLLMCore,
        folder: Path,
        *,
        keep_in_flight: bool = False,
        numbers: str = "float32",
        context_length: int | None = None,
        swap_timeout_s: float = 60.0,
    ) -> None:
        """Take over a core that was started from ``folder``.

        Args:
            core: vLLM, as ``vllm_start.start_core`` gives it.
            folder: the model it runs, in Hugging Face layout.
            keep_in_flight: decisions in flight go on under new full weights, rather than being finished before.
            numbers: format of its weights: ``float32``, ``bfloat16`` or ``float16``.
            context_length: tokens of a prompt and its completion; None: as many as the model can hold.
            swap_timeout_s: for decisions in flight to finish, and for a probe to be answered.
        """
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self._core = core
        self._context = min(int(config["max_position_embeddings"]), context_length or sys.maxsize)
        self._vocabulary = np.arange(config["vocab_size"], dtype=np.int32)
        ends = config.get("eos_token_id")
        self._end_ids = frozenset(ends if isinstance(ends, list) else [] if ends is None else [ends])
        self._like = _shapes(folder)
        self._base = FullWeights(folder)
        self._policies: dict[str, Policy] = {LEARNER: Policy(0, self._base)}
        self._scheduler: WeightScheduler[FullWeights] = WeightScheduler(self._base, self._load, swap_timeout_s)
        self._updating = asyncio.Lock()  # full weights of the learner come one after another
        # Adapters do not come and go while the GPU is somebody else's; held while the engine sleeps.
        self._awake = asyncio.Lock()
        self._others_in_flight = 0  # decisions that are not the learner's own weights'
        self._keep = keep_in_flight
        self._format = numbers
        self._swap_timeout_s = swap_timeout_s
        self._numbers = itertools.count(1)
        self._adapters = LoraRegistry(core)
        self._closed = False
        self._death: str | None = None
        self._nap: AsyncExitStack | None = None
        self._counts = dict.fromkeys(
            ("decisions", "completion_tokens", "sampled_tokens", "prompt_tokens", "cached_prompt_tokens"), 0
        )

    async def generate(self, request: GenerationRequest) -> Generation:
        """Queue one decision and wait for it; vLLM batches concurrent calls.

        Raises:
            EngineError: unknown policy name, a prompt or sheet that does not fit, or the engine is closed or dead.
        """
        answer: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        self._policy(request.policy)
        if 0 < request.temperature < _COOLEST:
            raise EngineError(f"vLLM samples at {_COOLEST} at the lowest, not at {request.temperature}; 0 is greedy")
        state = begin_writing(request, self._vocabulary, self._end_ids, self._context)
        writing = RunningSequence(request, state, answer)
        if writing.state.finished:  # the sheet left no choice
            return self._count(writing.generation(self._policy(request.policy).version), writing, 0)
        async with self._scheduler.decision(lambda: self._policy(request.policy).weights):
            policy = self._policy(request.policy)
            adapter = policy.adapter
            others = request.policy != LEARNER or adapter is not None
            self._others_in_flight += others
            try:
                with self._adapters.used(adapter):
                    cached = await self._write(writing, adapter)
            finally:
                self._others_in_flight -= others
        return self._count(writing.generation(policy.version), writing, cached)

    async def update_weights(
        self, payload: bytes | memoryview, version: int, policy: str = LEARNER, probe: Probe | None = None
    ) -> None:
        """Swap one policy's weights (full, or an adapter), adding the policy if the name is new.

        Decisions in flight finish under the weights they began with (unless ``keep_in_flight``: then the learner's own,
        as long as no others are in flight, go on under the new full weights and carry the older version); later ones
        carry ``version``. While the engine sleeps an opponent's adapter waits for it to wake.

        Raises:
            EngineError: not safetensors, names or shapes do not match, or the engine disagrees with the probe; the
                old weights stay in use.
        """
        if self._closed or self._death is not None:
            raise EngineError(self._death or "the engine is closed")
        if self._nap is not None and policy == LEARNER:
            raise EngineError("the engine sleeps: wake it before it takes weights")
        try:
            configuration = adapter_config_of(payload)
            if configuration is None:
                await asyncio.to_thread(read_payload, payload, self._like)  # copies it, and games go on meanwhile
        except CheckpointError as error:
            raise EngineError(f"weights of {policy!r} version {version} were refused: {error}") from error
        if configuration is not None:
            async with self._awake:
                await self._update_adapter(payload, configuration, version, policy, probe)
        elif policy == LEARNER or probe is not None:
            async with self._updating:
                await self._update_full(FullWeights(payload), version, policy, probe)
        else:
            self._replace(policy, Policy(version, FullWeights(payload)))  # loaded when it is its turn

    def remove_policy(self, policy: str) -> None:
        """Forget a policy; decisions in flight are finished, those that wait fail. Unknown names pass."""
        removed = self._policies.pop(policy, None)
        if removed is not None and removed.adapter is not None:
            self._adapters.retire(removed.adapter)

    def stats(self) -> Mapping[str, float]:
        """Since start: decisions, {completion,sampled,prompt,cached_prompt}_tokens, busy_seconds; queue as of now."""
        return {
            **self._counts,
            "busy_seconds": self._core.busy_seconds(),
            "queue": self._scheduler.waiting,
            "weight_switches": self._scheduler.switches,
        }

    async def sleep(self) -> None:
        """Finish what is in flight, hold what is asked for from now on, and free the GPU; weights wait in memory.

        Raises:
            EngineError: decisions in flight did not finish in time.
        """
        if self._nap is not None:
            return
        async with AsyncExitStack() as nap:
            await nap.enter_async_context(self._awake)
            await nap.enter_async_context(self._scheduler.exclusive(drained=True))
            await self._core.sleep()
            self._nap = nap.pop_all()

    async def wake(self) -> None:
        """Go on after ``sleep``; a no-op when awake."""
        if self._nap is None:
            return
        await self._core.wake()
        nap, self._nap = self._nap, None
        await nap.aclose()

    async def close(self) -> None:
        """Fail what is queued, free the memory and return. Closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        self._scheduler.fail_waiting(EngineError("the engine was closed"))
        await self._core.close()
        for policy in self._policies.values():
            if policy.adapter is not None:
                policy.adapter.folder.cleanup()
        self._policies.clear()

    def _policy(self, name: str) -> Policy:
        if self._closed or self._death is not None:
            raise EngineError(self._death or "the engine is closed")
        policy = self._policies.get(name)
        if policy is None:
            raise EngineError(f"unknown policy {name!r}; this engine has {', '.join(sorted(self._policies))}")
        return policy

    def _replace(self, name: str, policy: Policy) -> None:
        self.remove_policy(name)
        self._policies[name] = policy

    async def _write(self, writing: RunningSequence, adapter: Adapter | None) -> int:
        """Let vLLM write; gives the tokens of the prompt that it had cached."""
        request = writing.request
        written = await self._core.write(
            f"decision-{next(self._numbers)}",
            list(writing.pending),
            self._parameters(writing),
            None if adapter is None else adapter.request,
        )
        tokens, logprobs = written.token_ids, written.logprobs
        position = 0
        while not writing.over:
            if position >= len(tokens):
                raise EngineError(f"vLLM stopped after {len(tokens)} tokens, before the sheet was complete")
            writing.accept(tokens[position], logprobs[position], writing.state.admissible())
            if writing.failure is not None:
                raise EngineError(f"the order sheet cannot be completed: {writing.failure}")
            found = tokens[position : position + len(writing.pending)]
            if not writing.over and found != writing.pending:
                raise EngineError(f"vLLM wrote {found} where only {writing.pending} could follow")
            position += len(writing.pending)
        if not np.isfinite(logprobs).all():
            raise EngineError(
                f"log-probabilities of a {request.policy!r} decision are not finite: its weights are damaged"
            )
        return written.cached_tokens

    def _parameters(self, writing: RunningSequence) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        request, constraint = writing.request, writing.request.constraint
        if constraint is None:
            assert isinstance(writing.state, FreeState)
            ends, extra, limit = sorted(self._end_ids), None, writing.state.left
        else:
            ends, extra = [constraint.end_id], {SHEET: encode_sheet(constraint)}
            limit = constraint.longest
        return SamplingParams(
            temperature=request.temperature,
            seed=request.seed & 0x7FFF_FFFF_FFFF_FFFF,
            max_tokens=limit,
            stop_token_ids=ends,
            logprobs=0,  # the sampled token's own
            flat_logprobs=True,
            detokenize=False,
            extra_args=extra,
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_clone=True,
        )

    def _count(self, generation: Generation, writing: RunningSequence, cached: int) -> Generation:
        counts = self._counts
        counts["decisions"] += 1
        counts["prompt_tokens"] += len(writing.request.prompt_ids)
        counts["cached_prompt_tokens"] += cached
        counts["completion_tokens"] += len(generation.completion_ids)
        counts["sampled_tokens"] += writing.sampled
        return generation

    async def _load(self, weights: FullWeights, *, keep: bool = False) -> None:
        """Make vLLM run under these weights, or under those it had; if it can do neither it is of no more use.

        Raises:
            EngineError: it could not take them.
        """
        before = self._scheduler.loaded
        try:
            await self._core.load_weights(weights.source, keep=keep)
        # vLLM's workers raise whatever torch or safetensors do, and may stop half-way through the layers.
        except Exception as error:
            await self._load_back(before, keep=keep)
            raise EngineError(f"vLLM could not take new weights ({error}); the old ones stay in use") from error

    async def _load_back(self, weights: FullWeights, *, keep: bool) -> None:
        try:
            await self._core.load_weights(weights.source, keep=keep)
        except Exception as error:
            self._death = f"vLLM is left with half of its weights: {error}"
            self._scheduler.fail_waiting(EngineError(self._death))
            raise EngineError(self._death) from error

    async def _update_full(self, weights: FullWeights, version: int, policy: str, probe: Probe | None) -> None:
        keep = self._keep and policy == LEARNER
        async with self._scheduler.exclusive(drained=not keep):
            if keep and (self._others_in_flight or self._scheduler.loaded is not self._policy(policy).weights):
                keep = False
                await self._scheduler.drain()
            before = self._scheduler.loaded
            await self._load(weights, keep=keep)
            try:
                wrong = None if probe is None else await self._refusal(probe, None, policy, version)
            except EngineError as error:
                wrong = f"weights of {policy!r} version {version} were refused: {error}"
            if wrong is not None:
                await self._load_back(before, keep=keep)
                raise EngineError(wrong)
            self._scheduler.set_loaded(weights)
            self._replace(policy, Policy(version, weights))

    async def _update_adapter(
        self, payload: bytes | memoryview, configuration: str, version: int, policy: str, probe: Probe | None
    ) -> None:
        adapter = await self._adapters.load(payload, configuration, f"{policy}-{version}")
        try:
            if probe is not None:
                async with self._scheduler.decision(lambda: self._base):
                    wrong = await self._refusal(probe, adapter, policy, version)
                if wrong is not None:
                    raise EngineError(wrong)
        except BaseException:
            self._adapters.retire(adapter)
            raise
        self._replace(policy, Policy(version, self._base, adapter))

    async def _refusal(self, probe: Probe, adapter: Adapter | None, policy: str, version: int) -> str | None:
        """What the loaded weights compute otherwise than the learner, if anything."""
        loop = asyncio.get_running_loop()
        writings = [
            RunningSequence(
                request, begin_writing(request, self._vocabulary, self._end_ids, self._context), loop.create_future()
            )
            for request in probe_requests(probe, policy)
        ]
        try:
            async with asyncio.timeout(self._swap_timeout_s):
                await asyncio.gather(*(self._write(writing, adapter) for writing in writings))
        except TimeoutError:
            return (
                f"weights of {policy!r} version {version} gave no answer to a probe within {self._swap_timeout_s:.0f} s"
            )
        return refusal(probe, [writing.generation(version) for writing in writings], policy, version, self._format)


def _shapes(folder: Path) -> dict[str, Tensor]:
    """Names and shapes of a folder's weights, as tensors without memory."""
    shapes: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118  (not a mapping)
                shapes[name] = torch.empty(tensors.get_slice(name).get_shape(), device="meta")
    return shapes
