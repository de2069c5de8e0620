"""What the processes of the vLLM benchmark hold: engines, ``transformers.generate``, and plain copies of weights."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import safetensors.torch
import torch

from cluster.bench.inference.torch_engine import generate
from cluster.bench.inference.vllm_models import WEIGHTS_FILE, word_tokenizer
from cluster.runtime.engines import spare_what_is_loaded
from grpo_core.models.pretrained import load_model
from grpo_core.models.weight_probe import Probe
from opponents.bots.registry import make_bot
from opponents.play import play_game
from opponents.players.llm_policy import LLMPolicy, OrderTokens
from opponents.players.policy import Policy
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.inference.engine import Engine, GenerationRequest
from services.inference.torch_backend.engine import TorchEngine
from services.inference.vllm_backend.core import VLLMCore, shared_folder
from services.inference.vllm_backend.engine import VLLMEngine
from services.inference.vllm_backend.startup import CoreOptions, start_core, weights_dtype
from services.settings import InferenceSettings

FLOW_TIMEOUT_S = 120.0  # for decisions in flight to come out as fast as they go in

Kind = Literal["torch", "actor", "own"]  # vLLM in the actor's process, or in one of its own


@dataclass(frozen=True, slots=True)
class Load:
    """Decisions to write, so many of them in flight all the time."""

    in_flight: int
    decisions: int


@dataclass(frozen=True, slots=True)
class Wrote:
    """What a load took."""

    decisions: int
    tokens: int  # of completions
    seconds: float


@dataclass(frozen=True, slots=True)
class Tables:
    """Whole games, all at once."""

    name: str
    games: int
    until_year: int
    all_seats: bool  # the policy sits on all seven; else on one, countries in rotation, among random players


@dataclass(frozen=True, slots=True)
class Played:
    """What games took."""

    decisions: int  # of the policy
    seconds: float
    busy_seconds: float  # as the engine counts them


class EngineHost:
    """An engine as a rollout actor has it, the loop it lives in, and requests."""

    def __init__(self, kind: Kind, folder: str, rows: int, requests: Sequence[GenerationRequest]) -> None:
        """Start it and let it write a little, so that what is slow only once is over.

        Args:
            kind: which engine, and where it steps.
            folder: of the model.
            rows: decisions the engine writes together at most.
            requests: what loads are taken from.
        """
        torch.set_num_threads(1)
        self._folder = Path(folder)
        self._settings = InferenceSettings(
            engine="torch" if kind == "torch" else "vllm",
            engine_process="auto" if kind == "torch" else kind,
            max_concurrent_decisions=rows,
        )
        self._tokens = OrderTokens(word_tokenizer())
        self._requests = requests
        self._version = 0
        self._core: VLLMCore | None = None
        self._runner = asyncio.Runner()
        self._engine: Engine = self._runner.run(self._start())
        self.write(Load(rows, rows))
        spare_what_is_loaded()  # as a rollout actor does

    async def _start(self) -> Engine:
        if self._settings.engine == "torch":
            model, _ = load_model(self._folder)
            return TorchEngine(model, max_concurrent_decisions=self._settings.max_concurrent_decisions, threads=1)
        self._core = start_core(self._folder, self._settings, CoreOptions(on_gpu=False))
        return VLLMEngine(self._core, self._folder, dtype=weights_dtype(self._folder, self._settings))

    def write(self, load: Load) -> Wrote:
        """The first requests, of which nothing is cached."""
        return self._runner.run(self._write(load))

    def play(self, tables: Tables) -> Played:
        """Games of the policy, of whose prompts nothing is cached."""
        return self._runner.run(self._play(tables))

    def load(self, moved: str, through_file: bool) -> float:
        """Seconds in which vLLM alone takes other weights; from a file in shared memory, its writing included."""
        return self._runner.run(self._load(_payload(moved), through_file))

    def update(self, moved: str, probe: Probe, in_flight: int) -> float:
        """Seconds of a swap as the learner asks for it, with so many decisions in flight when it comes."""
        return self._runner.run(self._update(_payload(moved), probe, in_flight))

    def close(self) -> None:
        """End the engine, and its process if it has one."""
        self._runner.run(self._engine.close())
        self._runner.close()

    async def _write(self, load: Load) -> Wrote:
        await self._forget()
        places = asyncio.Semaphore(load.in_flight)

        async def one(request: GenerationRequest) -> int:
            async with places:
                return len((await self._engine.generate(request)).completion_ids)

        start = time.perf_counter()
        lengths = await asyncio.gather(*(one(request) for request in self._requests[: load.decisions]))
        return Wrote(len(lengths), sum(lengths), time.perf_counter() - start)

    async def _play(self, tables: Tables) -> Played:
        await self._forget()
        policy, random = LLMPolicy(self._engine, self._tokens), make_bot("random")
        games = [self._seats(number, tables, policy, random) for number in range(tables.games)]
        before, start = self._engine.stats(), time.perf_counter()
        await asyncio.gather(
            *(
                play_game(
                    DiplomacyGame(tables.until_year),
                    seats,
                    number,
                    learners=[power for power in POWERS if seats[power] is policy],
                )
                for number, seats in enumerate(games)
            )
        )
        seconds, after = time.perf_counter() - start, self._engine.stats()
        decisions = int(after["decisions"] - before["decisions"])
        return Played(decisions, seconds, after["busy_seconds"] - before["busy_seconds"])

    def _seats(self, number: int, tables: Tables, policy: Policy, random: Policy) -> dict[str, Policy]:
        learner = POWERS[number % len(POWERS)]
        return {power: policy if tables.all_seats or power == learner else random for power in POWERS}

    async def _forget(self) -> None:
        """New weights, as between a run's updates: no prompt of a round before is still cached."""
        if self._core is not None:
            await self._core.load_weights(self._folder, keep=False)

    async def _load(self, payload: bytes, through_file: bool) -> float:
        assert self._core is not None, "the torch engine has no core"
        start = time.perf_counter()
        if not through_file:
            await self._core.load_weights(payload, keep=False)
            return time.perf_counter() - start
        with TemporaryDirectory(prefix="entente-weights-", dir=shared_folder(len(payload))) as folder:
            (Path(folder) / WEIGHTS_FILE).write_bytes(payload)
            await self._core.load_weights(Path(folder), keep=False)
            return time.perf_counter() - start

    async def _update(self, payload: bytes, probe: Probe, in_flight: int) -> float:
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


class PlainHost:
    """The same model under plain transformers: ``generate``, and a copy of other weights."""

    def __init__(self, folder: str, moved: str, requests: Sequence[GenerationRequest]) -> None:
        """Load it, in the numbers of its folder.

        Args:
            folder: of the model.
            moved: of other weights.
            requests: what loads are taken from.
        """
        torch.set_num_threads(1)
        numbers: torch.dtype = getattr(torch, weights_dtype(Path(folder), InferenceSettings()))
        self._model, _ = load_model(Path(folder), numbers)
        self._tokenizer = word_tokenizer()
        self._requests = requests
        self._tensors = safetensors.torch.load_file(Path(moved) / WEIGHTS_FILE)

    def write(self, load: Load) -> Wrote:
        """Left-padded batches, each as long as its longest sheet, under the same masks."""
        requests = self._requests[: load.decisions]
        start = time.perf_counter()
        tokens = sum(self._batch(requests[at : at + load.in_flight]) for at in range(0, len(requests), load.in_flight))
        return Wrote(len(requests), tokens, time.perf_counter() - start)

    def copy(self) -> float:
        """Seconds of ``load_state_dict`` from memory."""
        start = time.perf_counter()
        self._model.load_state_dict(self._tensors, strict=False)  # a tied head is stored once
        return time.perf_counter() - start

    def _batch(self, requests: Sequence[GenerationRequest]) -> int:
        return generate(self._model, self._tokenizer, requests, 0, masked=True)


def _payload(folder: str) -> bytes:
    return (Path(folder) / WEIGHTS_FILE).read_bytes()
