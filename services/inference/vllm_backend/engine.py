"""The production engine: vLLM under the same masks as the torch engine, on GPUs and on a CPU.

Policies are full weights, or LoRA adapters over the weights that the engine began with. Adapters are batched together
with their base; different full weights take turns (``weight_scheduler``). A swap takes effect between decisions and
needs no restart. It is followed by a probe of the learner's own greedy tokens, which detects wrong weights.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from grpo_core.errors import CheckpointError
from grpo_core.models.lora import adapter_config_of
from grpo_core.models.pretrained import read_payload
from grpo_core.types import Probe
from services.inference.engine import LEARNER, EngineError, Generation, GenerationRequest
from services.inference.parity import parity_error, probe_requests
from services.inference.sequence import ModelLimits, RunningSequence, initial_state
from services.inference.vllm_backend.core import VLLMCore
from services.inference.vllm_backend.lora_registry import Adapter, LoraRegistry
from services.inference.vllm_backend.sampling_parameters import next_part_parameters
from services.inference.vllm_backend.startup import generation_config, model_config, size_of
from services.inference.vllm_backend.weight_scheduler import WeightScheduler

_LOWEST_TEMPERATURE = 0.01  # vLLM raises lower ones to it without a warning

FullWeights = bytes | memoryview | Path  # safetensors bytes, or the folder that the engine began with


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """The current weights of a policy."""

    version: int
    weights: FullWeights  # kept so that they can be loaded again
    adapter: Adapter | None = None


class VLLMEngine:
    """Implements ``engine.Engine``; begins as the learner's version 0 with the weights of a folder."""

    def __init__(
        self,
        core: VLLMCore,
        folder: Path,
        *,
        keep_in_flight: bool = False,
        dtype: str = "float32",
        context_length: int | None = None,
        swap_timeout_s: float = 60.0,
    ) -> None:
        """Take ownership of a core that ``startup.start_core`` started from ``folder``.

        With ``keep_in_flight``, decisions in flight go on under new full weights. ``dtype`` is the number format of the
        weights (``parity.TOLERANCES``), ``context_length`` the tokens of a prompt and its completion (None: the model's
        limit), and ``swap_timeout_s`` the longest time for decisions in flight to finish or a probe to be answered.
        """
        config = model_config(folder)
        self._limits = ModelLimits.of(
            size_of(config, "vocab_size"),
            (config.get("eos_token_id"), generation_config(folder).get("eos_token_id")),
            min(size_of(config, "max_position_embeddings"), context_length or sys.maxsize),
        )
        self._core = core
        self._request_numbers = itertools.count(1)
        self._shapes = _weight_shapes(folder)
        self._base = folder
        self._policies = {LEARNER: Policy(0, folder)}
        self._scheduler: WeightScheduler[FullWeights] = WeightScheduler(folder, self._load, swap_timeout_s)
        self._updating = asyncio.Lock()  # the learner's full weights are updated one after another
        # Adapters are not loaded or freed while another process uses the GPU; held while the engine sleeps.
        self._awake = asyncio.Lock()
        self._others_in_flight = 0  # decisions of opponents or with an adapter, not with the learner's full weights
        self._keep = keep_in_flight
        self._dtype = dtype
        self._swap_timeout_s = swap_timeout_s
        self._adapters = LoraRegistry(core)
        self._closed = False
        self._death: str | None = None
        self._sleep_locks: AsyncExitStack | None = None  # None: awake
        self._counts = dict.fromkeys(
            ("decisions", "completion_tokens", "sampled_tokens", "prompt_tokens", "cached_prompt_tokens"), 0
        )

    async def generate(self, request: GenerationRequest) -> Generation:
        """Queue one decision and wait for it; raises as ``Engine.generate`` does, and when vLLM is dead."""
        policy = self._policy(request.policy)
        if 0 < request.temperature < _LOWEST_TEMPERATURE:
            raise EngineError(
                f"vLLM samples at {_LOWEST_TEMPERATURE} at the lowest, not at {request.temperature}; 0 is greedy"
            )
        sequence = RunningSequence(request, initial_state(request, self._limits))
        cached = 0
        if not sequence.over:  # else the sheet left no choice
            async with self._scheduler.decision(lambda: self._policy(request.policy).weights):
                policy = self._policy(request.policy)
                other = request.policy != LEARNER or policy.adapter is not None
                self._others_in_flight += other
                try:
                    with self._adapters.used(policy.adapter):
                        cached = await self._decode(sequence, policy.adapter)
                finally:
                    self._others_in_flight -= other
        generation = sequence.generation(policy.version)
        counts = self._counts
        counts["decisions"] += 1
        counts["prompt_tokens"] += len(request.prompt_ids)
        counts["cached_prompt_tokens"] += cached
        counts["completion_tokens"] += len(generation.completion_ids)
        counts["sampled_tokens"] += sequence.sampled
        return generation

    async def update_weights(
        self, payload: bytes | memoryview, version: int, policy: str = LEARNER, probe: Probe | None = None
    ) -> None:
        """Swap one policy's weights; see ``Engine.update_weights``.

        With ``keep_in_flight`` the learner's decisions go on under its new full weights and carry the older version, as
        long as no others are in flight. While the engine sleeps, an opponent's adapter waits until it wakes.
        """
        self._check_usable()
        if self._sleep_locks is not None and policy == LEARNER:
            raise EngineError("the engine sleeps: wake it before it takes weights")
        try:
            configuration = adapter_config_of(payload)
            if configuration is None:
                await asyncio.to_thread(read_payload, payload, self._shapes)  # it copies; games go on meanwhile
        except CheckpointError as error:
            raise EngineError(f"weights of {policy!r} version {version} were refused: {error}") from error
        if configuration is not None:
            async with self._awake:
                await self._update_adapter(payload, configuration, version, policy, probe)
        elif policy == LEARNER or probe is not None:
            async with self._updating:
                await self._update_full(payload, version, policy, probe)
        else:
            self._replace(policy, Policy(version, payload))  # loaded when a decision needs it

    def remove_policy(self, policy: str) -> None:
        """Remove a policy: its decisions in flight finish, its waiting ones fail. Unknown names are ignored."""
        removed = self._policies.pop(policy, None)
        if removed is not None and removed.adapter is not None:
            self._adapters.release(removed.adapter)

    def stats(self) -> Mapping[str, float]:
        """See ``Engine.stats``; adds cached_prompt_tokens and weight_switches."""
        return {
            **self._counts,
            "busy_seconds": self._core.busy_seconds(),
            "queue": self._scheduler.waiting,
            "weight_switches": self._scheduler.switches,
        }

    async def sleep(self) -> None:
        """Free the GPU; see ``Engine.sleep``. The weights stay in the machine's memory."""
        if self._sleep_locks is not None:
            return
        async with AsyncExitStack() as locks:
            await locks.enter_async_context(self._awake)
            await locks.enter_async_context(self._scheduler.exclusive(drained=True))
            await self._core.sleep()
            self._sleep_locks = locks.pop_all()

    async def wake(self) -> None:
        """Resume after ``sleep``; a no-op when awake."""
        if self._sleep_locks is None:
            return
        await self._core.wake()
        locks, self._sleep_locks = self._sleep_locks, None
        await locks.aclose()

    async def close(self) -> None:
        """Fail what is queued and free the memory; a no-op when closed."""
        if self._closed:
            return
        self._closed = True
        self._scheduler.fail_waiting(EngineError("the engine was closed"))
        await self._core.close()
        for policy in self._policies.values():
            if policy.adapter is not None:
                policy.adapter.folder.cleanup()
        self._policies.clear()

    def _check_usable(self) -> None:
        if self._closed or self._death is not None:
            raise EngineError(self._death or "the engine is closed")

    def _policy(self, name: str) -> Policy:
        self._check_usable()
        policy = self._policies.get(name)
        if policy is None:
            raise EngineError(f"unknown policy {name!r}; this engine has {', '.join(sorted(self._policies))}")
        return policy

    def _replace(self, name: str, policy: Policy) -> None:
        self.remove_policy(name)
        self._policies[name] = policy

    async def _decode(self, sequence: RunningSequence, adapter: Adapter | None) -> int:
        """Complete the sequence under the loaded weights and an adapter, if any; return its cached prompt tokens.

        A thought is a request of its own: what ends it, as the end of a text does, must not end the decision. The
        sheet's request finds the keys and values of prompt and thought in the prefix cache.
        """
        cached = await self._decode_part(sequence, adapter)
        if not sequence.over:  # what follows the thought; the tokens that it finds cached are this decision's own
            await self._decode_part(sequence, adapter)
        return cached

    async def _decode_part(self, sequence: RunningSequence, adapter: Adapter | None) -> int:
        """Complete the sequence's thought, or what follows it; return the cached prompt tokens."""
        thinking = sequence.thinking
        output = await self._core.generate(
            f"decision-{next(self._request_numbers)}",
            [*sequence.request.prompt_ids, *sequence.completion],
            next_part_parameters(sequence),
            None if adapter is None else adapter.request,
        )
        tokens, logprobs = output.token_ids, output.logprobs
        position = 0
        while not sequence.over and sequence.thinking == thinking:
            if position >= len(tokens):
                what = "thought" if thinking else "sheet"
                raise EngineError(f"vLLM stopped after {len(tokens)} tokens, before the {what} was complete")
            sequence.accept(tokens[position], logprobs[position], sequence.state.admissible())
            if sequence.failure is not None:
                raise EngineError(f"the order sheet cannot be completed: {sequence.failure}")
            found = tokens[position : position + len(sequence.pending)]
            if not sequence.over and sequence.thinking == thinking and found != sequence.pending:
                raise EngineError(f"vLLM wrote {found} where only {sequence.pending} could follow")
            position += len(sequence.pending)
        if not np.isfinite(logprobs).all():
            policy = sequence.request.policy
            raise EngineError(f"log-probabilities of a {policy!r} decision are not finite: its weights are damaged")
        return output.cached_tokens

    async def _load(self, weights: FullWeights, *, keep: bool = False) -> None:
        """Make vLLM run under these weights; if it refuses them (``EngineError``), load the previous ones again."""
        previous = self._scheduler.loaded
        try:
            await self._core.load_weights(weights, keep=keep)
        # vLLM's workers raise whatever torch or safetensors do, and may stop half-way through the layers.
        except Exception as error:
            await self._restore(previous, keep=keep)
            raise EngineError(f"vLLM could not take new weights ({error}); the old ones stay in use") from error

    async def _restore(self, weights: FullWeights, *, keep: bool) -> None:
        try:
            await self._core.load_weights(weights, keep=keep)
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
            previous = self._scheduler.loaded
            await self._load(weights, keep=keep)
            try:
                difference = None if probe is None else await self._parity_error(probe, None, policy, version)
            except EngineError as error:
                difference = f"weights of {policy!r} version {version} were refused: {error}"
            if difference is not None:
                await self._restore(previous, keep=keep)
                raise EngineError(difference)
            self._scheduler.loaded = weights
            self._replace(policy, Policy(version, weights))

    async def _update_adapter(
        self, payload: bytes | memoryview, configuration: str, version: int, policy: str, probe: Probe | None
    ) -> None:
        adapter = await self._adapters.load(payload, configuration, f"{policy}-{version}")
        try:
            if probe is not None:
                async with self._scheduler.decision(lambda: self._base):
                    difference = await self._parity_error(probe, adapter, policy, version)
                if difference is not None:
                    raise EngineError(difference)
        except BaseException:
            self._adapters.release(adapter)
            raise
        self._replace(policy, Policy(version, self._base, adapter))

    async def _parity_error(self, probe: Probe, adapter: Adapter | None, policy: str, version: int) -> str | None:
        """Describe how the results of the loaded weights differ from the learner's; None where they agree."""
        sequences = [
            RunningSequence(request, initial_state(request, self._limits)) for request in probe_requests(probe, policy)
        ]
        try:
            async with asyncio.timeout(self._swap_timeout_s):
                await asyncio.gather(*(self._decode(sequence, adapter) for sequence in sequences))
        except TimeoutError:
            return (
                f"weights of {policy!r} version {version} gave no answer to a probe within {self._swap_timeout_s:.0f} s"
            )
        answers = [sequence.generation(version) for sequence in sequences]
        return parity_error(probe, answers, policy, version, self._dtype)


def _weight_shapes(folder: Path) -> dict[str, Tensor]:
    """Return a folder's weights by name, as tensors without memory."""
    shapes: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118  (not a mapping)
                shapes[name] = torch.empty(tensors.get_slice(name).get_shape(), device="meta")
    return shapes
