"""A narrow interface to vLLM.

In this process (``InlineCore``, for CPUs) it starts in seconds and needs no second core, but games wait while it steps.
In a process of its own (``ProcessCore``) games and the GPU work at the same time.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from services.inference.engine import EngineError

SHEET = "sheet"  # key of the encoded constraint in a request's extra_args
# Rounds of the event loop between steps, as in the torch engine.
_ROUNDS_BETWEEN_STEPS = 5
_STALE_CACHE = "vLLM did not clear the old weights' keys and values: a request is still in flight"
_DIED = "process died; its log says why (out of memory?)"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (a folder of our own is made in it)


@dataclass(frozen=True, slots=True)
class CoreOutput:
    """What vLLM sampled for one request: its tokens, and the log-probability of each as it was sampled."""

    token_ids: list[int]
    logprobs: list[float]
    cached_tokens: int  # tokens of the prompt that were in the prefix cache


class VLLMCore(ABC):
    """The operations of vLLM that the engine uses."""

    _engine: Any  # vLLM's LLMEngine or AsyncLLM

    @abstractmethod
    async def generate(self, request_id: str, prompt_ids: list[int], params: Any, adapter: Any | None) -> CoreOutput:
        """Sample one request to its end; raises ``EngineError`` if vLLM refused it, or is dead."""

    @abstractmethod
    async def load_weights(self, source: bytes | memoryview | Path, *, keep: bool) -> None:
        """Replace the weights of the whole model in place and clear all cached keys and values.

        ``source`` is safetensors bytes or a folder of such files. With ``keep``, requests in flight go on under these
        weights; without it there must be none.
        """

    @abstractmethod
    def busy_seconds(self) -> float:
        """Return the seconds since the start in which vLLM had work."""

    @abstractmethod
    async def close(self) -> None:
        """Fail what is in flight and free the model."""

    async def add_adapter(self, adapter: Any) -> None:
        """Load a LoRA adapter."""
        await self._call("load an adapter", self._engine.add_lora, adapter)

    async def remove_adapter(self, adapter_id: int) -> None:
        """Free a LoRA adapter that no request in flight uses."""
        await self._call("free an adapter", self._engine.remove_lora, adapter_id)

    async def sleep(self) -> None:
        """Free the GPU's memory; no request may be in flight."""
        await self._call("sleep", self._engine.sleep, 1)

    async def wake(self) -> None:
        """Take the GPU's memory again."""
        await self._call("wake up", self._engine.wake_up)

    @staticmethod
    async def _call(purpose: str, method: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        with _as_engine_error(purpose):
            result = method(*arguments, **options)
            if inspect.isawaitable(result):
                await result


def prepare_environment() -> None:
    """Set vLLM's environment variables, except those that the user has set; call it before vLLM is imported."""
    for name, value in {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_HOST_IP": "127.0.0.1",  # its workers communicate on this machine alone
        # The second model runner does not pass logits processors the data that ours needs.
        "VLLM_USE_V2_MODEL_RUNNER": "0",
        "HF_HUB_OFFLINE": "1",
    }.items():
        os.environ.setdefault(name, value)


@contextmanager
def _as_engine_error(purpose: str) -> Iterator[None]:
    """Turn any error of vLLM, torch or safetensors into an ``EngineError`` of one line."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        reason = f"its {_DIED}" if type(error).__name__ == "EngineDeadError" else _one_line(error)
        raise EngineError(f"vLLM could not {purpose}: {reason}") from error


class InlineCore(VLLMCore):
    """vLLM's engine in this process (one at a time); a task of the running loop steps it while there is work."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # without it, a CPU's worker gets a process of its own
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine
        from vllm.v1.executor import Executor

        config = EngineArgs(**arguments).create_engine_config()
        self._engine = LLMEngine(config, Executor.get_class(config), log_stats=False, multiprocess_mode=False)
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._task: asyncio.Task[None] | None = None
        self._busy = 0.0
        self._death: str | None = None

    async def generate(self, request_id: str, prompt_ids: list[int], params: Any, adapter: Any | None) -> CoreOutput:
        """Sample one request to its end."""
        from vllm.inputs import TokensPrompt

        if self._death is not None:
            raise EngineError(self._death)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        start = time.perf_counter()
        try:
            self._engine.add_request(
                request_id, TokensPrompt(prompt_token_ids=prompt_ids), params, lora_request=adapter
            )
        except (ValueError, TypeError) as error:
            raise EngineError(f"vLLM refused a request: {_one_line(error)}") from error
        finally:
            self._busy += time.perf_counter() - start
        self._answers[request_id] = answer
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._step_all(), name="vLLM steps")
        try:
            return _core_output(await answer)
        except asyncio.CancelledError:
            if self._answers.pop(request_id, None) is not None:
                self._engine.abort_request([request_id])
            raise

    async def load_weights(self, source: bytes | memoryview | Path, *, keep: bool) -> None:
        """Replace the weights between two steps."""
        data = str(source) if isinstance(source, Path) else source
        with _as_engine_error("load weights"):
            self._engine.collective_rpc("load_policy", args=(data,))
        if not self._engine.reset_prefix_cache(reset_running_requests=keep):
            raise EngineError(_STALE_CACHE)

    def busy_seconds(self) -> float:
        """Return the seconds spent in vLLM: adding requests, and steps."""
        return self._busy

    async def close(self) -> None:
        """Fail what is in flight and free the model."""
        self._fail("the engine was closed")
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=10)
        await asyncio.to_thread(self._engine.engine_core.shutdown)

    async def _step_all(self) -> None:
        try:
            while self._engine.has_unfinished_requests():
                for _ in range(_ROUNDS_BETWEEN_STEPS):
                    await asyncio.sleep(0)
                start = time.perf_counter()
                for output in self._engine.step():
                    answer = self._answers.pop(output.request_id, None) if output.finished else None
                    if answer is not None and not answer.done():
                        answer.set_result(output)
                self._busy += time.perf_counter() - start
        except Exception as error:  # noqa: BLE001  (callers that wait for an answer must get any error of a step)
            self._fail(f"vLLM failed in a step: {type(error).__name__}: {_one_line(error)}", error)

    def _fail(self, reason: str, cause: BaseException | None = None) -> None:
        self._death = reason
        waiting, self._answers = self._answers, {}
        for answer in waiting.values():
            if not answer.done():
                error = EngineError(reason)
                error.__cause__ = cause
                answer.set_exception(error)


class ProcessCore(VLLMCore):
    """vLLM's engine in a process of its own, with one worker process per GPU where there are several."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
        self._running = 0
        self._busy = 0.0
        self._busy_since = 0.0

    async def generate(self, request_id: str, prompt_ids: list[int], params: Any, adapter: Any | None) -> CoreOutput:
        """Sample one request to its end."""
        from vllm.inputs import TokensPrompt
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        if self._running == 0:
            self._busy_since = time.perf_counter()
        self._running += 1
        last = None
        try:
            prompt = TokensPrompt(prompt_token_ids=prompt_ids)
            async for output in self._engine.generate(prompt, params, request_id, lora_request=adapter):
                last = output
        except EngineDeadError as error:
            raise EngineError(f"vLLM's {_DIED}") from error
        except (EngineGenerateError, ValueError) as error:
            raise EngineError(f"vLLM refused a request: {_one_line(error.__cause__ or error)}") from error
        finally:
            self._running -= 1
            if self._running == 0:
                self._busy += time.perf_counter() - self._busy_since
        assert last is not None, "vLLM ends with an answer or an error"
        return _core_output(last)

    async def load_weights(self, source: bytes | memoryview | Path, *, keep: bool) -> None:
        """Replace the weights through a file in shared memory, which every worker maps."""
        with _as_engine_error("load weights"):
            await self._engine.pause_generation(mode="keep", clear_cache=False)
            try:
                if isinstance(source, Path):
                    await self._engine.collective_rpc("load_policy", args=(str(source),))
                else:
                    with TemporaryDirectory(prefix="entente-weights-", dir=shared_folder(len(source))) as folder:
                        file = Path(folder) / "model.safetensors"
                        await asyncio.to_thread(file.write_bytes, source)
                        await self._engine.collective_rpc("load_policy", args=(str(file),))
                if not await self._engine.reset_prefix_cache(reset_running_requests=keep):
                    raise EngineError(_STALE_CACHE)
            finally:
                await self._engine.resume_generation()

    async def sleep(self) -> None:
        """Free the GPU's memory."""
        await self._call("sleep", self._engine.sleep, 1, mode="wait")

    async def wake(self) -> None:
        """Take the GPU's memory again."""
        await super().wake()
        await self._call("wake up", self._engine.resume_generation)

    def busy_seconds(self) -> float:
        """Return the seconds in which at least one request was in flight."""
        return self._busy + (time.perf_counter() - self._busy_since if self._running else 0.0)

    async def close(self) -> None:
        """End vLLM's process."""
        await asyncio.to_thread(self._engine.shutdown, 10.0)


def shared_folder(size: int) -> str | None:
    """Return the folder of shared memory if ``size`` bytes fit there twice; else None, the usual temporary folder."""
    try:
        room = os.statvfs(_SHARED_MEMORY)
    except OSError:
        return None
    return str(_SHARED_MEMORY) if room.f_bavail * room.f_frsize > 2 * size else None


def _core_output(output: Any) -> CoreOutput:
    completion = output.outputs[0]
    token_ids = list(completion.token_ids)
    logprobs = completion.logprobs  # flat: one entry a token, since only that of the sampled one was requested
    return CoreOutput(token_ids, list(logprobs.logprobs), output.num_cached_tokens or 0)


def _one_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
