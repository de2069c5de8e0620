"""The default engine: continuous batching over any transformers causal LM with plain attention.

A pass feeds each row its certain tokens: its prompt, or the sampled token and the forced ones after it. Each policy has
a running batch: its weights and the decisions under them. New weights begin a new batch; the old one runs empty.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping

import torch
from transformers import PreTrainedModel

from grpo_core.errors import CheckpointError
from grpo_core.types import Probe
from services.inference.engine import LEARNER, EngineError, Generation, GenerationRequest
from services.inference.parity import parity_error, probe_requests
from services.inference.scoring import Scorer
from services.inference.sequence import ModelLimits, initial_state
from services.inference.torch_backend.model_runner import ModelRunner
from services.inference.torch_backend.running_batch import QueuedSequence, RunningBatch

# Rounds of the event loop between passes: enough for a game whose last answer just arrived to process its phase and to
# request new decisions (future -> decision -> gather -> game -> decisions).
_ROUNDS_BETWEEN_PASSES = 5
_SLEEP_TIMEOUT_S = 60.0


class TorchEngine:
    """An ``Engine`` over a model, the learner's version 0; a task of the caller's loop runs it while there is work."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        max_concurrent_decisions: int = 64,
        threads: int = 1,
        tokens_per_pass: int = 1024,
    ) -> None:
        """Take ownership of a transformers causal LM with plain full attention, on the device it is to run on.

        ``max_concurrent_decisions`` counts the rows over all policies, ``threads`` torch's CPU threads in this process,
        and ``tokens_per_pass`` the prompt tokens of one prefill pass (more may not fit the processor's cache).
        """
        torch.set_num_threads(threads)
        self._runner = ModelRunner(model)
        self._limits = ModelLimits.of(
            self._runner.vocab_size,
            (model.config.eos_token_id, getattr(model.generation_config, "eos_token_id", None)),
            model.config.max_position_embeddings,
        )
        self._max_rows = max_concurrent_decisions
        self._tokens_per_pass = tokens_per_pass
        self._batches: dict[str, RunningBatch] = {LEARNER: RunningBatch(self._runner, self._runner.base, version=0)}
        self._draining: list[RunningBatch] = []  # replaced or removed; kept until their last decision is written
        self._queue: deque[QueuedSequence] = deque()
        self._joining: dict[str, list[QueuedSequence]] = {}  # by policy, while they move from the queue into a batch
        self._task: asyncio.Task[None] | None = None
        self._asleep = False
        self._closed = False
        self._counts = dict.fromkeys(("decisions", "completion_tokens", "sampled_tokens", "prompt_tokens"), 0)
        self._busy_seconds = 0.0

    async def generate(self, request: GenerationRequest) -> Generation:
        """Queue one decision and wait for it; raises as ``Engine.generate`` does."""
        batch = self._batch(request.policy)
        sequence = self._sequence(request)
        if sequence.over:  # the sheet left no choice
            self._finish(sequence, batch.version)
            return sequence.answer.result()
        self._queue.append(sequence)
        self._start_task()
        return await sequence.answer

    def scorer(self, policy: str) -> Scorer:
        """See ``ScoringEngine.scorer``; the scorer shares the model with the engine, between its passes."""
        return self._batch(policy).scorer(self._limits.context)

    async def update_weights(
        self, payload: bytes | memoryview, version: int, policy: str = LEARNER, probe: Probe | None = None
    ) -> None:
        """See ``Engine.update_weights``; adapters are merged with the weights that the engine was constructed with."""
        if self._closed:
            raise EngineError("the engine is closed")
        try:
            weights = self._runner.read(payload)
        except CheckpointError as error:
            raise EngineError(f"weights of {policy!r} version {version} were refused: {error}") from error
        batch = RunningBatch(self._runner, weights, version)
        if probe is not None and (difference := self._parity_error(probe, batch, policy)):
            raise EngineError(difference)
        if old := self._batches.get(policy):
            self._draining.append(old)
        self._batches[policy] = batch

    def remove_policy(self, policy: str) -> None:
        """Remove a policy: its decisions in flight finish, its queued ones fail. Unknown names are ignored."""
        if batch := self._batches.pop(policy, None):
            self._draining.append(batch)

    def stats(self) -> Mapping[str, float]:
        """See ``Engine.stats``."""
        return {**self._counts, "busy_seconds": self._busy_seconds, "queue": len(self._queue)}

    async def sleep(self) -> None:
        """Finish the decisions in flight and hold later ones (``Engine.sleep``); weights stay where they are."""
        self._asleep = True
        if self._task is not None and not self._task.done():
            _, late = await asyncio.wait([self._task], timeout=_SLEEP_TIMEOUT_S)
            if late:
                raise EngineError(
                    f"{self._active()} decisions in flight did not finish within {_SLEEP_TIMEOUT_S:.0f} s"
                )

    async def wake(self) -> None:
        """Resume after ``sleep``; a no-op when awake."""
        self._asleep = False
        self._start_task()

    async def close(self) -> None:
        """Fail all unfinished decisions and free the memory; a no-op when closed."""
        self._closed = True
        self._fail_all(EngineError("the engine was closed"))
        self._batches.clear()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=10)
        self._task = None

    def _batch(self, policy: str) -> RunningBatch:
        if self._closed:
            raise EngineError("the engine is closed")
        if policy not in self._batches:
            known = ", ".join(sorted(self._batches))
            raise EngineError(f"unknown policy {policy!r}; this engine has {known}")
        return self._batches[policy]

    def _sequence(self, request: GenerationRequest) -> QueuedSequence:
        answer: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        return QueuedSequence(request, initial_state(request, self._limits), answer=answer)

    def _start_task(self) -> None:
        if self._queue and not self._asleep and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="torch engine")

    def _parity_error(self, probe: Probe, batch: RunningBatch, policy: str) -> str | None:
        """Describe how the results of the batch's weights differ from the learner's; None where they agree."""
        sequences = [self._sequence(request) for request in probe_requests(probe, policy)]
        joining = sequences
        with torch.inference_mode():
            while joining or batch:
                batch.step(joining, self._tokens_per_pass)
                joining = []
        answers = [sequence.generation(batch.version) for sequence in sequences]
        return parity_error(probe, answers, policy, batch.version, str(self._runner.dtype).removeprefix("torch."))

    async def _run(self) -> None:
        """Run passes until no decision is queued or in flight."""
        try:
            while True:
                for _ in range(_ROUNDS_BETWEEN_PASSES):
                    await asyncio.sleep(0)
                if not self._active() and (self._asleep or not self._queue):
                    return
                start = time.perf_counter()
                with torch.inference_mode():
                    self._pass()
                self._busy_seconds += time.perf_counter() - start
        except asyncio.CancelledError:
            self._fail_all(EngineError("the engine's task was cancelled"))
            raise
        except Exception as error:  # noqa: BLE001  (callers that wait for an answer must get any error of a pass)
            self._fail_all(EngineError(f"a pass of the model failed: {type(error).__name__}: {error}"), error)

    def _active(self) -> int:
        return sum(map(len, self._batches.values())) + sum(map(len, self._draining))

    def _pass(self) -> None:
        """Admit queued decisions to free rows, then run one step of every batch."""
        free = 0 if self._asleep else self._max_rows - self._active()
        joining = self._joining
        while self._queue and free > 0:
            sequence = self._queue.popleft()
            if sequence.answer.done():  # its caller has stopped waiting
                continue
            if sequence.request.policy not in self._batches:
                sequence.answer.set_exception(EngineError(f"policy {sequence.request.policy!r} was removed"))
                continue
            joining.setdefault(sequence.request.policy, []).append(sequence)
            free -= 1
        self._draining = [batch for batch in self._draining if batch]
        batches = [(batch, joining.get(policy, ())) for policy, batch in self._batches.items()]
        for batch, sequences in (*batches, *((batch, ()) for batch in self._draining)):
            if batch or sequences:
                for sequence in batch.step(sequences, self._tokens_per_pass):
                    self._finish(sequence, batch.version)
        joining.clear()

    def _finish(self, sequence: QueuedSequence, version: int) -> None:
        if sequence.answer.done():
            return
        if sequence.failure is not None:
            sequence.answer.set_exception(EngineError(f"the order sheet cannot be completed: {sequence.failure}"))
            return
        generation = sequence.generation(version)
        self._counts["decisions"] += 1
        self._counts["prompt_tokens"] += len(sequence.request.prompt_ids)
        self._counts["completion_tokens"] += len(generation.completion_ids)
        self._counts["sampled_tokens"] += sequence.sampled
        sequence.answer.set_result(generation)

    def _fail_all(self, error: EngineError, cause: BaseException | None = None) -> None:
        error.__cause__ = cause
        waiting = [*self._queue, *(sequence for sequences in self._joining.values() for sequence in sequences)]
        self._queue.clear()
        self._joining.clear()
        for batch in (*self._batches.values(), *self._draining):
            waiting += batch.abandon()
        self._draining.clear()
        for sequence in waiting:
            if not sequence.answer.done():
                sequence.answer.set_exception(error)
