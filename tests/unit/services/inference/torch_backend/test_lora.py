"""The torch engine with adapters: each is merged with the base that the engine was constructed with."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from grpo_core.models.lora import adapter_payload, add_adapters
from grpo_core.models.named_tensors import from_safetensors, metadata_of, named_tensors, to_safetensors
from grpo_core.models.pretrained import make_small_model, weights_payload
from grpo_core.settings import PolicySettings
from services.inference.engine import LEARNER, EngineError, GenerationRequest
from services.inference.torch_backend.engine import TorchEngine
from tests.unit.services.inference.torch_backend.cases import (
    CONTEXT,
    END,
    VOCABULARY,
    check_against_plain_forward,
    gemma_model,
    peaked_model,
    requests,
    write,
)

LORA = PolicySettings(use_peft=True, lora_r=4, lora_alpha=8)
BUILDS = {"plain": peaked_model, "tied": lambda: peaked_model(tied=True), "other": gemma_model}


def adapted(base: PreTrainedModel, *targets: str) -> nn.Module:
    settings = LORA.model_copy(update={"lora_target_modules": targets}) if targets else LORA
    return add_adapters(copy.deepcopy(base), settings, seed=1)


def trained(model: nn.Module, seed: int) -> nn.Module:
    """The model with random adapter weights, as after an update."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.named_parameters():
        if ".lora_" in name:
            value.data.normal_(std=0.2, generator=generator)
    return model


def send(engine: TorchEngine, payload: bytes, version: int, policy: str = LEARNER) -> None:
    asyncio.run(engine.update_weights(memoryview(payload), version, policy))


def sheets(
    engine: TorchEngine, wanted: Sequence[GenerationRequest], models: dict[str, nn.Module]
) -> set[tuple[int, ...]]:
    """Generate, compare every log-probability and greedy choice with the policy's model, and return the sheets."""
    generations = write(engine, wanted)
    for request, generation in zip(wanted, generations, strict=True):
        check_against_plain_forward(models[request.policy], request, generation)
    return {tuple(generation.completion_ids.tolist()) for generation in generations}


@pytest.mark.parametrize("build", BUILDS)
def test_output_after_each_adapter_equals_that_of_the_peft_model(build: str) -> None:
    base = BUILDS[build]()
    model = adapted(base)
    engine = TorchEngine(base, max_concurrent_decisions=8)
    wanted = requests(8, temperature=0.0)
    seen = sheets(engine, wanted, {LEARNER: model})
    for version in (1, 2, 3):
        send(engine, adapter_payload(trained(model, version)), version)
        written = sheets(engine, wanted, {LEARNER: model})
        assert written - seen, "the new adapter writes what the old one wrote: the test would not detect a failed swap"
        seen |= written
        assert {generation.policy_version for generation in write(engine, wanted)} == {version}


def test_adapters_and_full_weights_run_side_by_side_until_removed() -> None:
    base = peaked_model()
    models = {
        LEARNER: trained(adapted(base), 1),
        "policy/v1": trained(adapted(base), 2),
        "policy/v2": trained(adapted(base, "o_proj", "up_proj"), 3),
        "policy/v3": peaked_model(seed=4),
    }
    engine = TorchEngine(base, max_concurrent_decisions=6)
    for version, (name, model) in enumerate(models.items()):
        full = name == "policy/v3"
        send(engine, weights_payload(model) if full else adapter_payload(model), version, name)
    names = list(models)
    wanted = [replace(request, policy=names[i % 4]) for i, request in enumerate(requests(8))]
    sheets(engine, wanted, models)
    engine.remove_policy("policy/v1")
    with pytest.raises(EngineError, match="unknown policy 'policy/v1'"):
        write(engine, wanted[1:2])
    sheets(engine, [request for request in wanted if request.policy != "policy/v1"], models)


@pytest.mark.parametrize("build", BUILDS)
def test_full_weights_of_the_learner_are_not_the_base_of_later_adapters(build: str) -> None:
    base = BUILDS[build]()
    model = trained(adapted(base), 1)
    first = {name: tensor.clone() for name, tensor in named_tensors(base).items()}
    engine = TorchEngine(base)
    send(engine, weights_payload(trained(copy.deepcopy(model), 5)), 1)
    write(engine, requests(2))
    send(engine, adapter_payload(model), 2)
    sheets(engine, requests(6), {LEARNER: model})
    assert all(torch.equal(tensor, first[name]) for name, tensor in engine._runner.base.items())


@pytest.mark.parametrize("build", BUILDS)
def test_weights_an_adapter_does_not_change_are_not_copied(build: str) -> None:
    base = BUILDS[build]()
    model = trained(adapted(base, "o_proj", "up_proj"), 1)
    engine = TorchEngine(base)
    for version, name in enumerate(("policy/v1", "policy/v2")):
        send(engine, adapter_payload(model), version, name)
    read = engine._runner.read(adapter_payload(model))
    own = {name for name, tensor in engine._runner.base.items() if read[name] is tensor}
    assert {name.split(".")[-2] for name in read.keys() - own} == {"o_proj", "up_proj"}
    one, other = (engine._batches[name]._weights for name in ("policy/v1", "policy/v2"))
    if build == "other":
        assert all(one[name] is other[name] for name in own)
        return
    assert one.embeddings is other.embeddings is engine._runner.base["model.embed_tokens.weight"]
    for first, second in zip(one.blocks, other.blocks, strict=True):
        assert first.qkv[0] is second.qkv[0], "queries, keys and values"
        assert first.gate[0] is second.gate[0]
        assert first.out[0] is not second.out[0]


def test_wrong_adapters_are_refused_and_the_old_weights_stay() -> None:
    base = peaked_model()
    model = trained(adapted(base), 1)
    good = adapter_payload(model)
    engine = TorchEngine(copy.deepcopy(base))
    send(engine, good, 1)
    tensors, texts = from_safetensors(good), metadata_of(good)
    name = next(iter(tensors))
    wider = add_adapters(peaked_model(), LORA.model_copy(update={"lora_r": 5}), seed=1)
    shape = PolicySettings(hidden_size=64, layers=3, intermediate_size=96, context_length=CONTEXT)
    deeper = make_small_model(shape, VOCABULARY, eos_id=END, bos_id=1, pad_id=0, seed=0)
    head = {"base_model.model.lm_head.lora_A.weight": torch.zeros(4, 64)}
    for payload, complaint in (
        (good[:-1], "not safetensors"),
        (good[:40], "not safetensors"),
        (adapter_payload(adapted(deeper)), "model.layers.2.*no linear layer"),
        (adapter_payload(adapted(peaked_model(seed=1))), "trained in other weights"),
        (to_safetensors(from_safetensors(adapter_payload(wider)), texts), "expected"),
        (to_safetensors({**tensors, **head}, texts), "only one of the two factors of lm_head"),
        (to_safetensors({**tensors, name: tensors[name][:, :-1]}, texts), "expected"),
    ):
        for policy in (LEARNER, "policy/v9"):
            with pytest.raises(EngineError, match=f"weights of '{policy}' version 2 were refused: .*{complaint}"):
                send(engine, payload, 2, policy)
    assert list(engine._batches) == [LEARNER]
    assert {generation.policy_version for generation in write(engine, requests(3))} == {1}
    sheets(engine, requests(3), {LEARNER: model})


def test_an_adapter_over_a_bf16_base_gives_the_same_logprobs_in_fp32() -> None:
    """The learner computes the frozen blocks in bfloat16 and the engine in fp32, with the same weights."""
    rough = peaked_model().to(torch.bfloat16)
    model = trained(adapted(rough), 1)
    assert {value.dtype for value in model.parameters()} == {torch.float32, torch.bfloat16}
    engine = TorchEngine(copy.deepcopy(rough).float())
    send(engine, adapter_payload(model), 1)
    sheets(engine, requests(8), {LEARNER: model.float()})
