from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import cast

from services.inference.vllm_backend.core import VLLMCore
from services.inference.vllm_backend.lora_registry import Adapter, LoraRegistry


class FakeCore:
    """Records the adapters that are freed."""

    def __init__(self) -> None:
        self.removed: list[int] = []

    async def remove_adapter(self, adapter_id: int) -> None:
        self.removed.append(adapter_id)


def test_an_adapter_is_freed_after_its_policy_and_its_last_decision() -> None:
    async def play() -> None:
        core = FakeCore()
        registry = LoraRegistry(cast(VLLMCore, core))
        adapter = Adapter(SimpleNamespace(lora_int_id=7), TemporaryDirectory())
        with registry.used(adapter):
            with registry.used(adapter), registry.used(None):
                registry.release(adapter)  # its policy is removed
            await asyncio.sleep(0)
            assert core.removed == []
        await asyncio.sleep(0.01)
        assert core.removed == [7]
        assert not Path(adapter.folder.name).exists()

    asyncio.run(play())


def test_an_adapter_stays_loaded_while_its_policy_has_it() -> None:
    async def play() -> None:
        core = FakeCore()
        registry = LoraRegistry(cast(VLLMCore, core))
        adapter = Adapter(SimpleNamespace(lora_int_id=7), TemporaryDirectory())
        with registry.used(adapter):
            pass
        await asyncio.sleep(0.01)
        assert core.removed == []
        registry.release(adapter)
        await asyncio.sleep(0.01)
        assert core.removed == [7]

    asyncio.run(play())
