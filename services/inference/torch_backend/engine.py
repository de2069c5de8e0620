"""The engine of the embedded default: continuous batching over any plain-attention transformers causal LM.

Decisions join as rows free up. A pass feeds each row what is certain (its prompt, or the sampled token and
whatever the mask forces after it), so forced tokens cost no step of their own and a trailing forced run no
pass at all. Every policy has a lane: its weights and the rows written under them. New weights open a new
lane; decisions in flight finish in the old one, which then goes.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping

import numpy as np
import torch
from transformers import PreTrainedModel

from grpo_core.errors import CheckpointError
from grpo_core.models.weight_probe import Probe
from services.inference.constraints import SheetState
from services.inference.engine import LEARNER, EngineError, Generation, GenerationRequest
from services.inference.parity import probe_requests, refusal
from services.inference.sequence import FreeState, RunningSequence, begin_writing
from services.inference.torch_backend.model_runner import ModelRunner
from services.inference.torch_backend.running_batch import RunningBatch

# Rounds of the event loop given to games between passes, so that those whose last answer just came can
# process their phase and ask again in time for the next pass: future -> decision -> gather -> game -> new
# decisions.
_ROUNDS_BETWEEN_PASSES = 5
_SLEEP_TIMEOUT_S = 60.0


class TorchEngine:
    """Implements ``engine.Engine``; takes the model over, which begins as the learner's version 0.

    One asyncio task steps the model in the running loop while there is something to write, and none when
    idle.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        max_concurrent_decisions: int = 64,
        threads: int = 1,
        tokens_per_pass: int = 1024,
    ) -> None:
        """Take the model over.

        Args:
            model: any transformers causal LM with plain full attention, on the device it is to run on.
            max_concurrent_decisions: rows decoded together, over all policies.
            threads: CPU threads of torch in this process.
            tokens_per_pass: prompt tokens of one prefill pass (more may not fit the processor's cache).
        """
        torch.set_num_threads(threads)
        self._skeleton = ModelRunner(model)
        self._context = int(model.config.max_position_embeddings)
        ends = model.config.eos_token_id
        self._end_ids = frozenset(ends if isinstance(ends, list) else [] if ends is None else [ends])
        self._vocabulary = np.arange(self._skeleton.vocab_size, dtype=np.int32)
        self._max_rows = max_concurrent_decisions
        self._tokens_per_pass = tokens_per_pass
        self._lanes: dict[str, RunningBatch] = {LEARNER: RunningBatch(self._skeleton, self._skeleton.base, version=0)}
        self._leaving: list[RunningBatch] = []  # replaced or removed, until their last decision is written
        self._queue: deque[RunningSequence] = deque()
        self._joining: dict[str, list[RunningSequence]] = {}  # on their way from the queue into a lane, by policy
        self._task: asyncio.Task[None] | None = None
        self._asleep = False
        self._closed = False
        self._counts = dict.fromkeys(("decisions", "completion_tokens", "sampled_tokens", "prompt_tokens"), 0)
        self._busy_seconds = 0.0

    async def generate(self, request: GenerationRequest) -> Generation:
        """Queue one decision and wait for it; concurrent calls are batched together.

        Raises:
            EngineError: unknown policy name, a prompt or sheet that does not fit, or the engine was closed.
        """
        answer: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        writing = RunningSequence(request, self._checked_state(request), answer)
        if writing.state.finished:  # the sheet left no choice
            self._finish(writing, self._lanes[request.policy].version)
            return answer.result()
        self._queue.append(writing)
        self._begin()
        return await answer

    async def update_weights(
        self, payload: bytes | memoryview, version: int, policy: str = LEARNER, probe: Probe | None = None
    ) -> None:
        """Give a policy new weights, full ones or an adapter, adding it if the name is new.

        An adapter is merged with the weights that the engine was constructed with, whatever full weights the policy or
        any other has been sent since. Decisions in flight finish under the weights they began with; those that begin
        later carry ``version``.

        Raises:
            EngineError: not safetensors, names, shapes or the adapter's base do not match, or the engine does not
                compute what the probe says; the old weights stay in use.
        """
        if self._closed:
            raise EngineError("the engine is closed")
        try:
            weights = self._skeleton.read(payload)
        except CheckpointError as error:
            raise EngineError(f"weights of {policy!r} version {version} were refused: {error}") from error
        lane = RunningBatch(self._skeleton, weights, version)
        if probe is not None and (wrong := self._refusal(probe, lane, policy)):
            raise EngineError(wrong)
        old = self._lanes.get(policy)
        self._lanes[policy] = lane
        if old:
            self._leaving.append(old)

    def remove_policy(self, policy: str) -> None:
        """Forget a policy once its decisions in flight are written; queued ones fail. Unknown names pass."""
        lane = self._lanes.pop(policy, None)
        if lane:
            self._leaving.append(lane)

    def stats(self) -> Mapping[str, float]:
        """Since start: decisions, {completion,sampled,prompt}_tokens, busy_seconds; queue is as of now."""
        return {**self._counts, "busy_seconds": self._busy_seconds, "queue": len(self._queue)}

    async def sleep(self) -> None:
        """Finish what is being written and hold what is asked for from now on; weights stay where they are.

        Raises:
            EngineError: decisions in flight did not finish in time.
        """
        self._asleep = True
        if self._task is not None and not self._task.done():
            _, late = await asyncio.wait([self._task], timeout=_SLEEP_TIMEOUT_S)
            if late:
                raise EngineError(
                    f"{self._active()} decisions in flight did not finish within {_SLEEP_TIMEOUT_S:.0f} s"
                )

    async def wake(self) -> None:
        """Go on after ``sleep``; a no-op when awake."""
        self._asleep = False
        self._begin()

    async def close(self) -> None:
        """Fail what is queued or being written, free the memory and return. Closing twice is fine."""
        self._closed = True
        self._fail_all(EngineError("the engine was closed"))
        self._lanes.clear()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=10)
        self._task = None

    def _begin(self) -> None:
        """See to it that what is queued is written."""
        if self._queue and not self._asleep and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._write_all(), name="torch engine")

    def _refusal(self, probe: Probe, lane: RunningBatch, policy: str) -> str | None:
        """What the lane computes otherwise than the learner, if anything."""
        loop = asyncio.get_running_loop()
        writings = [
            RunningSequence(
                request, begin_writing(request, self._vocabulary, self._end_ids, self._context), loop.create_future()
            )
            for request in probe_requests(probe, policy)
        ]
        joining: list[RunningSequence] = writings
        with torch.inference_mode():
            while joining or lane:
                lane.step(joining, self._tokens_per_pass)
                joining = []
        answers = [writing.generation(lane.version) for writing in writings]
        return refusal(probe, answers, policy, lane.version, str(self._skeleton.dtype).removeprefix("torch."))

    def _checked_state(self, request: GenerationRequest) -> SheetState | FreeState:
        if self._closed:
            raise EngineError("the engine is closed")
        if request.policy not in self._lanes:
            known = ", ".join(sorted(self._lanes))
            raise EngineError(f"unknown policy {request.policy!r}; this engine has {known}")
        return begin_writing(request, self._vocabulary, self._end_ids, self._context)

    async def _write_all(self) -> None:
        """Step until nothing is queued or being written."""
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
        except Exception as error:  # noqa: BLE001  (whatever broke a pass must reach those who wait for it)
            self._fail_all(EngineError(f"a pass of the model failed: {type(error).__name__}: {error}"), error)

    def _active(self) -> int:
        return sum(map(len, self._lanes.values())) + sum(map(len, self._leaving))

    def _pass(self) -> None:
        """Let waiting decisions in, then one step of every lane."""
        free = 0 if self._asleep else self._max_rows - self._active()
        joining = self._joining
        while self._queue and free > 0:
            writing = self._queue.popleft()
            if writing.answer.done():  # whoever asked has gone
                continue
            if writing.request.policy not in self._lanes:
                writing.answer.set_exception(EngineError(f"policy {writing.request.policy!r} was removed"))
                continue
            joining.setdefault(writing.request.policy, []).append(writing)
            free -= 1
        self._leaving = [lane for lane in self._leaving if lane]
        lanes = [(lane, joining.get(policy, ())) for policy, lane in self._lanes.items()]
        for lane, writings in (*lanes, *((lane, ()) for lane in self._leaving)):
            if lane or writings:
                for writing in lane.step(writings, self._tokens_per_pass):
                    self._finish(writing, lane.version)
        joining.clear()

    def _finish(self, writing: RunningSequence, version: int) -> None:
        if writing.answer.done():
            return
        if writing.failure is not None:
            writing.answer.set_exception(EngineError(f"the order sheet cannot be completed: {writing.failure}"))
            return
        generation = writing.generation(version)
        self._counts["decisions"] += 1
        self._counts["prompt_tokens"] += len(writing.request.prompt_ids)
        self._counts["completion_tokens"] += len(generation.completion_ids)
        self._counts["sampled_tokens"] += writing.sampled
        writing.answer.set_result(generation)

    def _fail_all(self, error: EngineError, cause: BaseException | None = None) -> None:
        error.__cause__ = cause
        waiting = [*self._queue, *(writing for writings in self._joining.values() for writing in writings)]
        self._queue.clear()
        self._joining.clear()
        for lane in (*self._lanes.values(), *self._leaving):
            waiting += lane.abandon()
        self._leaving.clear()
        for writing in waiting:
            if not writing.answer.done():
                writing.answer.set_exception(error)
