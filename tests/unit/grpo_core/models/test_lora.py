"""LoRA adapters: what is trained, what engines get, what a checkpoint keeps."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grpo_core.errors import CheckpointError
from grpo_core.forward.fast_layers import use_fast_layers
from grpo_core.forward.logprobs import check_head, token_logprobs
from grpo_core.models.lora import adapters_off, add_adapters, load_adapters, merged_tensors
from grpo_core.models.named_tensors import named_tensors
from grpo_core.models.pretrained import ADAPTER, load_model, save_model, weights_payload
from grpo_core.settings import PolicySettings
from tests.unit.grpo_core.support.adapters import logits, moved
from tests.unit.grpo_core.support.cases import load_payload, micro_batches_of, ragged_episodes, tiny_model

LORA = PolicySettings(use_peft=True, lora_r=3, lora_alpha=5)
ARCHITECTURES = ["qwen3", "qwen2"]  # the second has tied embeddings and biases


def fresh(architecture: str = "qwen3", settings: PolicySettings = LORA) -> nn.Module:
    return add_adapters(tiny_model(architecture), settings, seed=1)


def adapted(architecture: str = "qwen3", settings: PolicySettings = LORA) -> nn.Module:
    return moved(fresh(architecture, settings))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_fresh_adapter_changes_no_logits_and_only_it_is_trained(architecture: str) -> None:
    model = fresh(architecture)
    assert torch.equal(logits(model), logits(tiny_model(architecture)))
    trained = {name for name, value in model.named_parameters() if value.requires_grad}
    assert trained == {name for name, _ in model.named_parameters() if ".lora_" in name}
    layers = sum(isinstance(module, nn.Linear) for module in tiny_model(architecture).modules()) - 1  # not the output
    assert len(trained) == 2 * layers
    again = fresh(architecture)
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other), "the same seed gives the same adapter"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_merged_weights_give_the_adapted_logits_and_leave_the_live_model_unchanged(architecture: str) -> None:
    model = adapted(architecture)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    plain = tiny_model(architecture, seed=5)
    assert merged_tensors(model).keys() == named_tensors(plain).keys()
    load_payload(plain, weights_payload(model))
    torch.testing.assert_close(logits(plain), logits(model), rtol=1e-5, atol=1e-5)
    assert float((logits(model) - logits(tiny_model(architecture))).abs().max()) > 0.1
    assert plain.config.tie_word_embeddings == (architecture == "qwen2")
    after = model.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_switched_off_adapter_leaves_the_base_model_and_stays_trainable(architecture: str) -> None:
    model = adapted(architecture)
    on = logits(model)
    with adapters_off(model):
        assert torch.equal(logits(model), logits(tiny_model(architecture)))
    assert torch.equal(logits(model), on)
    assert all(value.requires_grad == (".lora_" in name) for name, value in model.named_parameters())
    with pytest.raises(ZeroDivisionError), adapters_off(model):
        _ = 1 / 0
    assert torch.equal(logits(model), on)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("free", [False, True])
def test_logprobs_and_gradients_equal_those_of_the_merged_model(architecture: str, free: bool) -> None:
    model, plain = adapted(architecture), tiny_model(architecture, seed=5)
    load_payload(plain, weights_payload(model))
    check_head(model)
    use_fast_layers(model)
    for micro in micro_batches_of(ragged_episodes(3, free=free)):
        one, other = token_logprobs(model, micro, entropy_grad=True), token_logprobs(plain, micro, entropy_grad=True)
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        for chosen, _ in (one, other):
            (chosen * micro.behaviour_N).sum().backward()
    # Of W' = W + s B A: dB = s dW' A^T and dA = s B^T dW'.
    scaling = LORA.lora_alpha / LORA.lora_r
    adapter = {name: value for name, value in model.named_parameters() if value.requires_grad}
    compared = 0
    for name, value in plain.named_parameters():
        found = f"base_model.model.{name.removesuffix('.weight')}.lora_%s.default.weight"
        if found % "A" in adapter:
            a, b = adapter[found % "A"], adapter[found % "B"]
            torch.testing.assert_close(a.grad, scaling * b.detach().T @ value.grad, rtol=1e-3, atol=1e-4)
            torch.testing.assert_close(b.grad, scaling * value.grad @ a.detach().T, rtol=1e-3, atol=1e-4)
            compared += 2
    assert compared == len(adapter)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_saved_folder_holds_the_merged_model_and_the_adapter(
    architecture: str, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    model = adapted(architecture)
    save_model(model, tokenizer, tmp_path)
    plain, _ = load_model(tmp_path)
    assert type(plain) is type(tiny_model(architecture))
    torch.testing.assert_close(logits(plain), logits(model), rtol=1e-5, atol=1e-5)
    other = fresh(architecture)
    load_adapters(other, tmp_path / ADAPTER)
    assert torch.equal(logits(other), logits(model))
    for one, same in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, same)
        assert one.requires_grad == same.requires_grad


def test_a_frozen_bf16_base_keeps_fp32_adapters() -> None:
    settings = LORA.model_copy(update={"dtype": "bfloat16"})
    base = tiny_model().to(torch.bfloat16)
    model = add_adapters(copy.deepcopy(base), settings, seed=1)
    assert {value.dtype for value in model.parameters() if value.requires_grad} == {torch.float32}
    assert {value.dtype for value in model.parameters() if not value.requires_grad} == {torch.bfloat16}
    assert all(torch.equal(value, named_tensors(base)[name]) for name, value in merged_tensors(model).items())
    (micro, *_) = micro_batches_of(ragged_episodes(3))
    chosen, _ = token_logprobs(model, micro)
    assert chosen.dtype == torch.float32
    chosen.sum().backward()
    assert any(float(value.grad.abs().max()) > 0 for value in model.parameters() if value.grad is not None)


def test_mismatched_and_damaged_adapters_are_refused(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    save_model(adapted(), tokenizer, tmp_path)
    file = tmp_path / ADAPTER / "adapter_model.safetensors"
    wider = adapted(settings=LORA.model_copy(update={"lora_r": 4}))
    before = logits(wider)
    with pytest.raises(CheckpointError, match=r"does not fit the policy: .*lora_A.* expected .*lora_r"):
        load_adapters(wider, file.parent)
    assert torch.equal(logits(wider), before)
    fewer = adapted(settings=LORA.model_copy(update={"lora_target_modules": ("q_proj",)}))
    with pytest.raises(CheckpointError, match="expected none"):
        load_adapters(fewer, file.parent)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_adapters(adapted(), file.parent)
    file.unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_adapters(adapted(), file.parent)


def test_layers_that_cannot_be_adapted_are_refused() -> None:
    def wrap(model: PreTrainedModel, *names: str) -> None:
        add_adapters(model, LORA.model_copy(update={"lora_target_modules": names}), seed=0)

    for name in ("lm_head", "embed_tokens"):
        with pytest.raises(ValueError, match="names an embedding or the output layer"):
            wrap(tiny_model(), "q_proj", name)
    with pytest.raises(ValueError, match="nonesuch"):
        wrap(tiny_model(), "nonesuch")
    with pytest.raises(ValidationError, match="bfloat16 needs use_peft"):
        PolicySettings(dtype="bfloat16")
