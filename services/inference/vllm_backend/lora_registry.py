"""LoRA adapters that vLLM holds: each stays while it is a policy's or a decision in flight is written with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from services.inference.engine import EngineError
from services.inference.vllm_backend.core import VLLMCore


@dataclass(slots=True, eq=False)
class Adapter:
    """One adapter in vLLM, and the folder it may be read from again."""

    request: Any  # vLLM's LoRARequest
    folder: TemporaryDirectory[str]
    users: int = 0  # decisions in flight
    retired: bool = False  # no policy's any more


class LoraRegistry:
    """The adapters of one core, counted by their users."""

    def __init__(self, core: VLLMCore) -> None:
        self._core = core
        self._last = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def load(self, payload: bytes | memoryview, configuration: str, name: str) -> Adapter:
        """Give vLLM an adapter: its weights as safetensors, its ``adapter_config.json``, what to call it.

        Raises:
            EngineError: vLLM refused it.
        """
        from vllm.lora.request import LoRARequest

        self._last += 1  # a number is never used again: vLLM's caches go by it
        folder: TemporaryDirectory[str] = TemporaryDirectory(prefix="entente-adapter-")
        (Path(folder.name) / "adapter_config.json").write_text(configuration, encoding="utf-8")
        await asyncio.to_thread((Path(folder.name) / "adapter_model.safetensors").write_bytes, payload)
        adapter = Adapter(LoRARequest(f"{name}-{self._last}", self._last, folder.name), folder)
        try:
            await self._core.add_adapter(adapter.request)
        except BaseException:
            self.retire(adapter)
            raise
        return adapter

    @contextmanager
    def used(self, adapter: Adapter | None) -> Iterator[None]:
        """A decision is written with it; None: with no adapter."""
        if adapter is None:
            yield
            return
        adapter.users += 1
        try:
            yield
        finally:
            adapter.users -= 1
            self._free(adapter)

    def retire(self, adapter: Adapter) -> None:
        """It is no policy's any more: it leaves once nobody uses it."""
        adapter.retired = True
        self._free(adapter)

    def _free(self, adapter: Adapter) -> None:
        if not adapter.retired or adapter.users:
            return
        task = asyncio.get_running_loop().create_task(self._remove(adapter))
        self._tasks.add(task)  # the loop itself keeps no hold of it
        task.add_done_callback(self._tasks.discard)

    async def _remove(self, adapter: Adapter) -> None:
        with suppress(EngineError):  # it is dead, or never had it
            await self._core.remove_adapter(adapter.request.lora_int_id)
        adapter.folder.cleanup()
