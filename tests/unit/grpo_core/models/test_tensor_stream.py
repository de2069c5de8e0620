"""Weights that are written tensor by tensor are those that are written at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from grpo_core.models.lora import add_adapters
from grpo_core.models.named_tensors import from_safetensors
from grpo_core.models.pretrained import empty_model, load_model, plain_tensors, weights_payload
from grpo_core.models.tensor_stream import gathered_payload, save_gathered
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


def test_an_empty_model_has_the_names_and_shapes_of_the_whole_one() -> None:
    for architecture in ("qwen3", "qwen2"):
        model = tiny_model(architecture)
        shapes = {name: value.shape for name, value in plain_tensors(model).items()}
        empty = empty_model(model.config, torch.float32)
        assert {name: value.shape for name, value in plain_tensors(empty).items()} == shapes
