from __future__ import annotations

import asyncio
import copy

import pytest
import torch

from cluster.runtime.engines import second_engine_fits
from grpo_core.models.lora import adapter_payload, add_adapters
from grpo_core.models.pretrained import weights_payload
from grpo_core.settings import PolicySettings
from services.inference.engine import EngineError, GenerationRequest
from services.inference.paired_engine import PairedEngine
from services.inference.torch_backend.engine import TorchEngine
from tests.unit.services.inference.torch_backend.cases import peaked_model, perturbed

REQUEST = GenerationRequest(prompt_ids=(1, 9, 11), constraint=None, seed=0, temperature=0.0, max_completion_length=6)


def test_only_opponents_full_weights_are_in_the_second_engine() -> None:
    model = peaked_model()
    other = perturbed(copy.deepcopy(model), 5)
    wrapped = add_adapters(copy.deepcopy(model), PolicySettings(use_peft=True, lora_r=4), seed=0)
    with torch.no_grad():
        for name, weight in wrapped.named_parameters():
            if "lora_" in name:
                weight.normal_(std=0.3)

    async def play() -> None:
        first, second = TorchEngine(copy.deepcopy(model)), TorchEngine(copy.deepcopy(model))
        pair = PairedEngine(first, second)
        await pair.update_weights(weights_payload(other), 7, policy="frozen")
        await pair.update_weights(adapter_payload(wrapped), 3, policy="adapted")
        asked = {name: _ask(pair, name) for name in ("learner", "frozen", "adapted")}
        written = dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))
        assert [len(written[name][1]) > 0 for name in written] == [True] * 3
        assert {name: version for name, (version, _) in written.items()} == {"learner": 0, "frozen": 7, "adapted": 3}
        assert (first.stats()["decisions"], second.stats()["decisions"]) == (2, 1)
        assert pair.stats()["decisions"] == 3
        # The same name may become an adapter: it moves.
        await pair.update_weights(adapter_payload(wrapped), 8, policy="frozen")
        assert await _ask(pair, "frozen") == (8, written["adapted"][1])
        with pytest.raises(EngineError, match="unknown policy 'frozen'"):
            await second.generate(_request("frozen"))
        pair.remove_policy("frozen")
        with pytest.raises(EngineError, match="unknown policy 'frozen'"):
            await pair.generate(_request("frozen"))
        await pair.close()

    asyncio.run(play())


def test_bytes_that_are_not_weights_are_refused() -> None:
    pair = PairedEngine(TorchEngine(peaked_model()), TorchEngine(peaked_model()))
    with pytest.raises(EngineError, match="'frozen' version 1 were refused"):
        asyncio.run(pair.update_weights(b"nothing", 1, policy="frozen"))


def test_a_second_engine_fits_if_the_smaller_share_holds_weights_and_cache() -> None:
    gib = 1 << 30
    assert second_engine_fits(15 * gib, 4 * gib, 80 * gib, utilization=0.85)
    assert not second_engine_fits(15 * gib, 4 * gib, 40 * gib, utilization=0.85)
    assert not second_engine_fits(15 * gib, 14 * gib, 80 * gib, utilization=0.85)


def _request(policy: str) -> GenerationRequest:
    return GenerationRequest(
        REQUEST.prompt_ids, None, REQUEST.seed, REQUEST.temperature, REQUEST.max_completion_length, policy
    )


async def _ask(pair: PairedEngine, policy: str) -> tuple[int, list[int]]:
    generation = await pair.generate(_request(policy))
    return generation.policy_version, generation.completion_ids.tolist()
