from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerBase

from grpo_core.errors import CheckpointError
from grpo_core.models.lora import add_adapters
from grpo_core.models.pretrained import save_model
from grpo_core.models.stored_size import stored_size
from grpo_core.settings import PolicySettings
from tests.unit.grpo_core.support.cases import tiny_model


def test_all_parameters_of_a_plain_model_are_trained(tmp_path: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    model = tiny_model()
    save_model(model, tokenizer, tmp_path)
    count = sum(value.numel() for value in model.parameters())
    assert stored_size(tmp_path) == (count, count)


def test_of_a_model_with_adapters_only_these_are_trained(tmp_path: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    model = tiny_model()
    count = sum(value.numel() for value in model.parameters())
    wrapped = add_adapters(model, PolicySettings(use_peft=True, lora_r=2), 0)
    trained = sum(value.numel() for value in wrapped.parameters() if value.requires_grad)
    save_model(wrapped, tokenizer, tmp_path)
    assert stored_size(tmp_path) == (count, trained)


def test_shards_are_added_up_and_types_of_any_width_count_alike(tmp_path: Path) -> None:
    for number in (1, 2):
        save_file({"a": torch.zeros(3, 5, dtype=torch.bfloat16)}, tmp_path / f"model-0000{number}-of-00002.safetensors")
    assert stored_size(tmp_path) == (30, 30)


def test_what_holds_no_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has no weights"):
        stored_size(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(CheckpointError, match="no whole safetensors file"):
        stored_size(tmp_path)
