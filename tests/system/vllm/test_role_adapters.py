"""Seven role adapters in vLLM at once: they have parity with the torch engine and are swapped all or none."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from cluster.actors.role_policies import Specialists
from grpo_core.models.lora import adapter_payload
from grpo_core.models.role_adapters import active_role, add_role_adapters
from grpo_core.models.weight_probe import make_probe
from grpo_core.settings import PolicySettings
from grpo_core.types import Probe
from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Decision
from services.inference.engine import Engine, EngineError
from services.inference.torch_backend.engine import TorchEngine
from services.settings import InferenceSettings
from services.weights.payload import Payload, make_role_payload
from tests.system.support.vllm_models import peaked_model, vllm_engine, word_tokenizer

pytest.importorskip("vllm", reason="vLLM is not installed: `make vllm` brings its CPU build")
pytestmark = pytest.mark.system

RANK = 8


def test_seven_role_adapters_agree_with_torch_and_are_swapped_all_or_none(tmp_path: Path) -> None:
    tokens = TokenizedLanguage(Diplomacy.language, word_tokenizer())
    base = peaked_model()
    model = add_role_adapters(copy.deepcopy(base), PolicySettings(use_peft=True, lora_r=RANK), 0, POWERS)
    position = DiplomacyGame(1901).position

    def published(version: int) -> dict[str, tuple[bytes, Probe | None]]:
        generator = torch.Generator().manual_seed(version)
        found = {}
        for power in POWERS:
            with torch.no_grad():
                for name, weight in model.named_parameters():
                    if name.endswith(f".{power}.weight"):
                        weight.normal_(std=0.1, generator=generator)
            with active_role(model, power):
                probe = make_probe(model, [tokens.prompt(position, power)])
            found[power] = adapter_payload(model, power), probe
        return found

    def players_of(engine: Engine) -> Specialists:
        return Specialists(
            engine, POWERS, lambda name, temperature: LLMPolicy(engine, tokens, policy=name, temperature=temperature)
        )

    async def sheets(specialists: Specialists) -> list[Decision]:
        seat = specialists.seat(0.0)
        return list(await asyncio.gather(*(seat.act(position, power, 3) for power in POWERS)))

    def check_parity(version: int) -> list[tuple[str, ...]]:
        written = runner.run(sheets(ours)), runner.run(sheets(theirs))
        for mine, other in zip(*written, strict=True):
            assert mine.orders == other.orders
            assert mine.turn.completion_ids.tolist() == other.turn.completion_ids.tolist()
            assert np.abs(mine.turn.logprobs - other.turn.logprobs).max() < 1e-4
            assert mine.turn.policy_version == other.turn.policy_version == version
        return [decision.actions for decision in written[0]]

    settings = InferenceSettings(kv_cache_mib=64, max_loras=2 * len(POWERS))
    with vllm_engine(base, tmp_path, settings, max_lora_rank=RANK) as (engine, runner):
        theirs, ours = players_of(engine), players_of(TorchEngine(copy.deepcopy(base), max_concurrent_decisions=64))

        def swap(payload: Payload) -> None:
            for each in (ours, theirs):
                runner.run(each.swap(payload))

        first = published(1)
        swap(make_role_payload(1, first))
        before = check_parity(1)
        second = published(2)
        swap(make_role_payload(2, second))
        after = check_parity(2)
        assert all(one != other for one, other in zip(before, after, strict=True))
        wrong = published(3) | {"TURKEY": (second["TURKEY"][0], first["TURKEY"][1])}
        for each in (ours, theirs):
            with pytest.raises(EngineError, match=r"learner/TURKEY#3.* does not compute what the learner does"):
                runner.run(each.swap(make_role_payload(3, wrong)))
        assert check_parity(2) == after
