"""vLLM behind one small face, stepped in this process or in one of its own.

In this process (``InlineCore``) it starts in seconds and needs no second core, but games wait while it steps: right
on a CPU. In its own (``ProcessCore``) games and the GPU work at the same time.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from services.inference.engine import EngineError

# Rounds of the event loop given to games between steps: see torch_engine.
_ROUNDS_BETWEEN_STEPS = 5
_STALE_CACHE = "vLLM did not forget the old weights' keys and values: a request is still in flight"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (a folder of our own is made in it)


@dataclass(frozen=True, slots=True)
class Written:
    """What vLLM wrote for one request: its tokens, and the log-probability of each as it was sampled."""

    token_ids: list[int]
    logprobs: list[float]
    cached_tokens: int  # of the prompt, found in the prefix cache


class VLLMCore(Protocol):
    """What the engine needs of vLLM."""

    async def write(self, request_id: str, prompt_ids: list[int], params: Any, adapter: Any | None) -> Written:
        """Sample one request to its end.

        Raises:
            EngineError: vLLM refused it, or is dead.
        """
        ...

    async def load_weights(self, source: bytes | memoryview | Path, *, keep: bool) -> None:
        """Take the weights of a whole model in place and forget all cached keys and values.

        Args:
            source: safetensors bytes, or a folder of such files.
            keep: requests are in flight; they go on under these weights. Else there must be none.
        """
        ...

    async def add_adapter(self, adapter: Any) -> None:
        """Load a LoRA adapter."""
        ...

    async def remove_adapter(self, adapter_id: int) -> None:
        """Free a LoRA adapter that no request names."""
        ...

    async def sleep(self) -> None:
        """Free the GPU's memory; no request may be in flight."""
        ...

    async def wake(self) -> None:
        """Take it again."""
        ...

    def busy_seconds(self) -> float:
        """Seconds since start in which vLLM had work."""
        ...

    async def close(self) -> None:
        """End it."""
        ...


def prepare_environment() -> None:
    """To be called before vLLM is imported; what the user has set stays."""
    for name, value in {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_HOST_IP": "127.0.0.1",  # its workers meet on this machine alone
        # The second model runner hands logits processors something else; the first one can do all we need.
        "VLLM_USE_V2_MODEL_RUNNER": "0",
        "HF_HUB_OFFLINE": "1",
    }.items():
        os.environ.setdefault(name, value)


@contextmanager
def _doing(what: str) -> Iterator[None]:
    """Whatever vLLM, torch or safetensors raise while it is asked for something becomes one line of ours."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        dead = type(error).__name__ == "EngineDeadError"
        reason = "its process died; its log says why (out of memory?)" if dead else _one_line(error)
        raise EngineError(f"vLLM could not {what}: {reason}") from error


class InlineCore:
    """vLLM's engine in this process, stepped by a task of the running loop while there is work.

    One a process at a time: closing it ends what all of them would share.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # else a CPU's worker gets a process nevertheless
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine
        from vllm.v1.executor import Executor

        config = EngineArgs(**arguments).create_engine_config()
        self._engine = LLMEngine(config, Executor.get_class(config), log_stats=False, multiprocess_mode=False)
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._task: asyncio.Task[None] | None = None
        self._busy = 0.0
        self._death: str | None = None

    async def write(self, request_id: str, prompt_ids: list[int], params: Any, adapter: Any | None) -> Written:
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
            return _written(await answer)
        except asyncio.CancelledError:
            if self._answers.pop(request_id, None) is not None:
                self._engine.abort_request([request_id])
            raise

    async def load_weights(self, source: bytes | memoryview | Path, *, keep: bool) -> None:
        """Between two steps, so that nothing else happens meanwhile."""
        data = str(source) if isinstance(source, Path) else source
        with _doing("load weights"):
            self._engine.collective_rpc("load_policy", args=(data,))
        if not self._engine.reset_prefix_cache(reset_running_requests=keep):
            raise EngineError(_STALE_CACHE)

    async def add_adapter(self, adapter: Any) -> None:
        """Load a LoRA adapter."""
        with _doing("load an adapter"):
            self._engine.add_lora(adapter)

    async def remove_adapter(self, adapter_id: int) -> None:
        """Free a LoRA adapter."""
        with _doing("free an adapter"):
            self._engine.remove_lora(adapter_id)

    async def sleep(self) -> None:
        """Free the GPU's memory."""
        with _doing("fall asleep"):
            self._engine.sleep(1)

    async def wake(self) -> None:
        """Take it again."""
        with _doing("wake up"):
            self._engine.wake_up()

    def busy_seconds(self) -> float:
        """Seconds spent in vLLM: taking requests, and steps."""
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
        except Exception as error:  # noqa: BLE001  (whatever broke a step must reach those who wait for it)
            self._fail(f"vLLM failed in a step: {type(error).__name__}: {_one_line(error)}", error)

    def _fail(self, reason: str, cause: BaseException | None = None) -> None:
        self._death = reason
        waiting, self._answers = self._answers, {}
        for answer in waiting.values():
            if not answer.done():
                error = EngineError(reason)
                error.__cause__ = cause
                answer.set_exception(error)


class ProcessCore:
    """vLLM's engine in a process of its own, with workers of its own where there are several GPUs."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
        self._running = 0
        self._busy = 0.0
        self._busy_since = 0.0

    async def write(self, request_id: str, prompt_ids: list[int], params: Any, adapter: Any | None) -> Written:
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
            raise EngineError("vLLM's process died; its log says why (out of memory?)") from error
        except (EngineGenerateError, ValueError) as error:
            raise EngineError(f"vLLM refused a request: {_one_line(error.__cause__ or error)}") from error
        finally:
            self._running -= 1
            if self._running == 0:
                self._busy += time.perf_counter() - self._busy_since
        assert last is not None, "vLLM ends with an answer or an error"
        return _written(last)

    async def load_weights(self, source: bytes | memoryview | Path, *, keep: bool) -> None:
        """Through a file in shared memory, which every worker maps."""
        with _doing("load weights"):
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

    async def add_adapter(self, adapter: Any) -> None:
        """Load a LoRA adapter."""
        with _doing("load an adapter"):
            await self._engine.add_lora(adapter)

    async def remove_adapter(self, adapter_id: int) -> None:
        """Free a LoRA adapter."""
        with _doing("free an adapter"):
            await self._engine.remove_lora(adapter_id)

    async def sleep(self) -> None:
        """Free the GPU's memory."""
        with _doing("fall asleep"):
            await self._engine.sleep(1, mode="wait")

    async def wake(self) -> None:
        """Take it again."""
        with _doing("wake up"):
            await self._engine.wake_up()
            await self._engine.resume_generation()

    def busy_seconds(self) -> float:
        """Seconds in which at least one request was in flight."""
        return self._busy + (time.perf_counter() - self._busy_since if self._running else 0.0)

    async def close(self) -> None:
        """End its process."""
        await asyncio.to_thread(self._engine.shutdown, 10.0)


def shared_folder(size: int) -> str | None:
    """The folder of shared memory if ``size`` bytes fit there twice; None: the usual temporary folder."""
    try:
        room = os.statvfs(_SHARED_MEMORY)
    except OSError:
        return None
    return str(_SHARED_MEMORY) if room.f_bavail * room.f_frsize > 2 * size else None


def _written(output: Any) -> Written:
    completion = output.outputs[0]
    token_ids = list(completion.token_ids)
    logprobs = completion.logprobs  # flat: one entry a token, since only the sampled one's was asked for
    return Written(token_ids, list(logprobs.logprobs), output.num_cached_tokens or 0)


def _one_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
