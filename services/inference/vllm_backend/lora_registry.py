"""The LoRA adapters that vLLM holds; each stays while a policy has it or a decision in flight uses it."""

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
    """One adapter in vLLM, and the folder from which vLLM may read it again."""

    request: Any  # vLLM's LoRARequest
    folder: TemporaryDirectory[str]
    uses: int = 1  # by its policy, and by decisions in flight


class LoraRegistry:
    """The adapters of one core, with their use counts."""

    def __init__(self, core: VLLMCore) -> None:
        self._core = core
        self._last_id = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def load(self, payload: bytes | memoryview, configuration: str, name: str) -> Adapter:
        """Load an adapter into vLLM (else ``EngineError``) from safetensors bytes and its ``adapter_config.json``."""
        from vllm.lora.request import LoRARequest

        self._last_id += 1  # never used again: vLLM's caches are keyed by it
        folder: TemporaryDirectory[str] = TemporaryDirectory(prefix="entente-adapter-")
        (Path(folder.name) / "adapter_config.json").write_text(configuration, encoding="utf-8")
        await asyncio.to_thread((Path(folder.name) / "adapter_model.safetensors").write_bytes, payload)
        adapter = Adapter(LoRARequest(f"{name}-{self._last_id}", self._last_id, folder.name), folder)
        try:
            await self._core.add_adapter(adapter.request)
        except BaseException:
            self.release(adapter)
            raise
        return adapter

    @contextmanager
    def used(self, adapter: Adapter | None) -> Iterator[None]:
        """Keep the adapter (if any) loaded while a decision uses it."""
        if adapter is None:
            yield
            return
        adapter.uses += 1
        try:
            yield
        finally:
            self.release(adapter)

    def release(self, adapter: Adapter) -> None:
        """End one use of an adapter; the last one frees it."""
        adapter.uses -= 1
        if not adapter.uses:
            task = asyncio.get_running_loop().create_task(self._remove(adapter))
            self._tasks.add(task)  # the loop itself holds no strong reference
            task.add_done_callback(self._tasks.discard)

    async def _remove(self, adapter: Adapter) -> None:
        with suppress(EngineError):  # vLLM is dead, or never had the adapter
            await self._core.remove_adapter(adapter.request.lora_int_id)
        adapter.folder.cleanup()
