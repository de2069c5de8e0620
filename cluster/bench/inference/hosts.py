"""Objects in the processes of the inference benchmarks: engines as in actors, and plain transformers."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import safetensors.torch
import torch
from transformers import GenerationConfig

from cluster.bench.inference.policies import word_tokenizer
from cluster.runtime.engines import spare_what_is_loaded
from grpo_core.models.pretrained import load_model
from grpo_core.types import Probe
from opponents.play import play_game
from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Policy
from services.inference.engine import Engine, GenerationRequest
from services.inference.token_masks import SheetConstraint, SheetState
from services.inference.torch_backend.engine import TorchEngine
from services.inference.vllm_backend.core import VLLMCore, shared_folder
from services.inference.vllm_backend.engine import VLLMEngine
from services.inference.vllm_backend.startup import CoreOptions, start_core, weights_dtype
from services.settings import InferenceSettings

P = ParamSpec("P")
R = TypeVar("R")

FLOW_TIMEOUT_S = 120.0  # until decisions in flight finish as fast as they start

Kind = Literal["torch", "actor", "own"]  # vLLM in the actor's process, or in its own


@dataclass(frozen=True, slots=True)
class Load:
    """Decisions to write, with a fixed number always in flight."""

    in_flight: int
    decisions: int


@dataclass(frozen=True, slots=True)
class Written:
    """The rates of a load, a second."""

    decisions: float
    tokens: float  # of completions


def median_rates(sides: Mapping[str, Callable[[], Written]], rounds: int) -> dict[str, Written]:
    """Median rates of every side; the sides run in turn."""
    written: dict[str, list[Written]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, write in sides.items():
            written[name].append(write())
    return {
        name: Written(median(each.decisions for each in all_), median(each.tokens for each in all_))
        for name, all_ in written.items()
    }


@dataclass(frozen=True, slots=True)
class Games:
    """Whole games, played concurrently."""

    name: str
    games: int
    until_year: int
    all_seats: bool  # the policy plays all seven seats; else one, countries in rotation, among random players


@dataclass(frozen=True, slots=True)
class Played:
    """The work and time of games."""

    decisions: int  # of the policy
    seconds: float
    busy_seconds: float  # as the engine counts them


def _in_loop(
    method: Callable[Concatenate[EngineHost, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[EngineHost, P], R]:
    """Make a coroutine method one that runs on the host's event loop."""

    @wraps(method)
    def run(host: EngineHost, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return host.runner.run(method(host, *args, **kwargs))

    return run


class EngineHost:
    """An engine as a rollout actor has it, its event loop, and requests."""

    def __init__(self, kind: Kind, folder: Path, rows: int, requests: Sequence[GenerationRequest]) -> None:
        """Start the engine, which writes at most ``rows`` decisions together, and warm it up.

        Loads are taken from ``requests``.
        """
        torch.set_num_threads(1)
        self._folder = folder
        self._requests = requests
        self._version = 0
        self._core: VLLMCore | None = None
        self.runner = asyncio.Runner()
        self._engine: Engine = self._start(kind, rows)
        self.write(Load(rows, rows))
        spare_what_is_loaded()  # as a rollout actor does

    @_in_loop
    async def _start(self, kind: Kind, rows: int) -> Engine:
        if kind == "torch":
            return TorchEngine(load_model(self._folder)[0], max_concurrent_decisions=rows, threads=1)
        settings = InferenceSettings(engine="vllm", engine_process=kind, max_concurrent_decisions=rows)
        self._core = start_core(self._folder, settings, CoreOptions(on_gpu=False))
        return VLLMEngine(self._core, self._folder, dtype=weights_dtype(self._folder, settings))

    @_in_loop
    async def write(self, load: Load) -> Written:
        """Write the first requests, with an empty prompt cache."""
        await self._clear_cache()
        free = asyncio.Semaphore(load.in_flight)

        async def one(request: GenerationRequest) -> int:
            async with free:
                return len((await self._engine.generate(request)).completion_ids)

        start = time.perf_counter()
        lengths = await asyncio.gather(*(one(request) for request in self._requests[: load.decisions]))
        seconds = time.perf_counter() - start
        return Written(load.decisions / seconds, sum(lengths) / seconds)

    @_in_loop
    async def play(self, games: Games) -> Played:
        """Play games of the policy, with an empty prompt cache."""
        await self._clear_cache()
        tokens, bot = TokenizedLanguage(Diplomacy.language, word_tokenizer()), make_bot("random")
        policy = LLMPolicy(self._engine, tokens)

        async def play(number: int) -> None:
            learners = POWERS if games.all_seats else (POWERS[number % len(POWERS)],)
            seats: dict[str, Policy] = {power: policy if power in learners else bot for power in POWERS}
            await play_game(DiplomacyGame(games.until_year), seats, number, learners=learners)

        before, start = self._engine.stats(), time.perf_counter()
        await asyncio.gather(*map(play, range(games.games)))
        seconds, after = time.perf_counter() - start, self._engine.stats()
        decisions = int(after["decisions"] - before["decisions"])
        return Played(decisions, seconds, after["busy_seconds"] - before["busy_seconds"])

    @_in_loop
    async def load(self, weights: Path, through_file: bool) -> float:
        """Seconds for vLLM alone to load weights, from memory or by writing and reading a file in shared memory."""
        assert self._core is not None, "the torch engine has no core"
        payload = weights.read_bytes()
        start = time.perf_counter()
        if not through_file:
            await self._core.load_weights(payload, keep=False)
            return time.perf_counter() - start
        with TemporaryDirectory(prefix="entente-weights-", dir=shared_folder(len(payload))) as folder:
            (Path(folder) / "model.safetensors").write_bytes(payload)
            await self._core.load_weights(Path(folder), keep=False)
            return time.perf_counter() - start

    @_in_loop
    async def update(self, weights: Path, probe: Probe, in_flight: int) -> float:
        """Seconds of a swap as the learner requests it, with ``in_flight`` decisions in flight at its start."""
        payload = weights.read_bytes()
        requests, flowing, swapped = itertools.cycle(self._requests), asyncio.Event(), asyncio.Event()
        written = 0

        async def write() -> None:
            nonlocal written
            while not swapped.is_set():
                await self._engine.generate(next(requests))
                written += 1
                if written >= in_flight:
                    flowing.set()

        writers = [asyncio.create_task(write()) for _ in range(in_flight)]
        try:
            if writers:
                async with asyncio.timeout(FLOW_TIMEOUT_S):
                    await flowing.wait()
            self._version += 1
            start = time.perf_counter()
            await self._engine.update_weights(payload, self._version, probe=probe)
            return time.perf_counter() - start
        finally:
            swapped.set()
            await asyncio.gather(*writers)

    def close(self) -> None:
        """End the engine, and its process if it has one."""
        self.runner.run(self._engine.close())
        self.runner.close()

    async def _clear_cache(self) -> None:
        """Load the weights again, which empties the prompt cache."""
        if self._core is not None:
            await self._core.load_weights(self._folder, keep=False)


class PlainHost:
    """The same model under plain transformers: ``generate``, and a copy of other weights."""

    def __init__(self, folder: Path, weights: Path, requests: Sequence[GenerationRequest]) -> None:
        """Load the model, in the number type of its folder; ``weights`` is a file of other weights."""
        torch.set_num_threads(1)
        dtype: torch.dtype = getattr(torch, weights_dtype(folder, InferenceSettings()))
        self._model, self._tokenizer = load_model(folder, dtype)
        self._requests = requests
        self._tensors = safetensors.torch.load_file(weights)

    def write(self, load: Load, unmasked_length: int | None = None) -> Written:
        """Write the first requests in left-padded batches, each as long as its longest sheet, under the engines' masks.

        With ``unmasked_length`` there are no masks, and every completion has that many tokens.
        """
        requests = self._requests[: load.decisions]
        start = time.perf_counter()
        batches = [requests[first : first + load.in_flight] for first in range(0, len(requests), load.in_flight)]
        tokens = sum(self._generate(batch, unmasked_length) for batch in batches)
        seconds = time.perf_counter() - start
        return Written(len(requests) / seconds, tokens / seconds)

    def copy(self) -> float:
        """Seconds of ``load_state_dict`` from memory."""
        start = time.perf_counter()
        self._model.load_state_dict(self._tensors, strict=False)  # a tied head is stored once
        return time.perf_counter() - start

    def _generate(self, requests: Sequence[GenerationRequest], unmasked_length: int | None) -> int:
        longest = max(len(request.prompt_ids) for request in requests)
        pad, end = int(self._tokenizer.pad_token_id), int(self._tokenizer.eos_token_id)
        input_ids = torch.tensor([[pad] * (longest - len(r.prompt_ids)) + list(r.prompt_ids) for r in requests])
        most = unmasked_length or max(request.max_completion_length for request in requests)
        masked = unmasked_length is None
        config = GenerationConfig(
            min_new_tokens=unmasked_length,
            max_new_tokens=most,
            do_sample=True,
            top_k=0,
            pad_token_id=pad,
            eos_token_id=end,
        )
        with torch.inference_mode():
            output = self._model.generate(
                input_ids,
                attention_mask=input_ids != pad,
                generation_config=config,
                prefix_allowed_tokens_fn=_Masks([r.constraint for r in requests], end) if masked else None,
            )
        return int((output[:, longest:] != pad).sum()) if masked else len(requests) * most


class _Masks:
    """``prefix_allowed_tokens_fn`` with a state for each row, so that no step reads the whole sequence again."""

    def __init__(self, constraints: Sequence[SheetConstraint | None], end: int) -> None:
        self._states = [SheetState(constraint) for constraint in constraints if constraint is not None]
        self._forced = [deque(state.forced()) for state in self._states]
        self._sampled = [False] * len(self._states)  # whether the row's last token was sampled, not forced
        self._end = end

    def __call__(self, row: int, ids: torch.Tensor) -> list[int]:
        state, forced = self._states[row], self._forced[row]
        if self._sampled[row]:
            state.advance(int(ids[-1]))
            forced.extend(state.forced())
            self._sampled[row] = False
        if forced:
            return [forced.popleft()]
        if state.finished:
            return [self._end]
        self._sampled[row] = True
        return [int(token) for token in state.admissible()]
