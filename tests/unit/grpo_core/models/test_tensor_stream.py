"""Weights that are written tensor by tensor are those that are written at once."""

from __future__ import annotations

import weakref
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from grpo_core.models.lora import add_adapters
from grpo_core.models.named_tensors import from_safetensors
from grpo_core.models.pretrained import empty_model, load_model, plain_tensors, weights_payload
from grpo_core.models.tensor_stream import gathered_payload, save_gathered, save_in_turn
from grpo_core.settings import PolicySettings
from services.inference.word_tokenizer import make_word_tokenizer
from tests.unit.grpo_core.support.cases import VOCABULARY, tiny_model


@pytest.mark.parametrize("adapted", [False, True], ids=["full weights", "adapters"])
@pytest.mark.parametrize("architecture", ["qwen3", "qwen2"], ids=["untied", "tied"])
def test_streamed_weights_equal_those_written_at_once(tmp_path: Path, architecture: str, adapted: bool) -> None:
    model = tiny_model(architecture)
    if adapted:
        model = add_adapters(model, PolicySettings(use_peft=True, lora_r=2), seed=1)
    expected = plain_tensors(model)
    for payload in (gathered_payload(model), weights_payload(model)):
        found = from_safetensors(payload)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    save_gathered(model, tmp_path)
    make_word_tokenizer([f"w{number}" for number in range(VOCABULARY - 4)], r"\S+").save_pretrained(tmp_path)
    loaded = plain_tensors(load_model(tmp_path)[0])
    assert all(torch.equal(loaded[name], tensor) for name, tensor in expected.items())


def test_tensors_of_all_kinds_are_stored_as_they_are(tmp_path: Path) -> None:
    tensors = {
        "halves": torch.arange(3, dtype=torch.bfloat16),
        "half": torch.tensor(0.5, dtype=torch.float16),
        "turned": torch.arange(6, dtype=torch.float32).reshape(2, 3).T,
        "wide": torch.tensor([[1 / 3]], dtype=torch.float64),
        "numbers": torch.tensor([2**40]),
        "none": torch.zeros(0, 4),
    }
    save_in_turn(tensors, tmp_path / "all.safetensors")
    found = load_file(tmp_path / "all.safetensors")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name
    save_in_turn({}, tmp_path / "empty.safetensors")
    assert load_file(tmp_path / "empty.safetensors") == {}


@pytest.mark.parametrize("writes", [True, False], ids=["the rank that writes", "a rank that helps"])
def test_no_more_than_two_gathered_tensors_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    alive: weakref.WeakSet[torch.Tensor] = weakref.WeakSet()
    most, order = 0, []

    def gathered(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal most
        copy = tensor.clone()
        alive.add(copy)
        most = max(most, len(alive))
        order.append(float(tensor[0]))
        return copy

    monkeypatch.setattr("grpo_core.models.tensor_stream.whole", gathered)
    tensors = {f"tensor {number}": torch.full((4,), float(number)) for number in range(9, -1, -1)}
    save_in_turn(tensors, tmp_path / "sharded.safetensors" if writes else None)
    assert most <= 2
    assert order == sorted(order)  # alike on every rank, whatever the order of names in its state
    assert len(list(tmp_path.iterdir())) == writes


def test_an_empty_model_has_the_names_and_shapes_of_the_whole_one() -> None:
    for architecture in ("qwen3", "qwen2"):
        model = tiny_model(architecture)
        shapes = {name: value.shape for name, value in plain_tensors(model).items()}
        empty = empty_model(model.config, torch.float32)
        assert {name: value.shape for name, value in plain_tensors(empty).items()} == shapes
