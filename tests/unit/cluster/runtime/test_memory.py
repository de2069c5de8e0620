"""The driver's memory check, which reads the model's size from files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import cluster.runtime.memory
from cluster.configs.loader import load_config
from cluster.errors import RunError
from cluster.runtime.memory import (
    GIB,
    WORKER_BYTES,
    adapter_parameters,
    check_memory,
    learner_estimate,
    needed_bytes,
    policy_size,
    small_policy_parameters,
)
from grpo_core.models.lora import add_adapters
from grpo_core.models.pretrained import make_small_model
from grpo_core.training.memory_estimate import ModelShape
from tests.unit.grpo_core.support.cases import tiny_model

# The shape of a model of 0.5 billion parameters.
HALF_BILLION = {
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_attention_heads": 14,
    "num_hidden_layers": 24,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
    "vocab_size": 151936,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(HALF_BILLION))
    return tmp_path


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])  # with and without tied embeddings
def test_model_size_is_read_from_a_folder(tmp_path: Path, architecture: str) -> None:
    model = tiny_model(architecture)
    model.save_pretrained(tmp_path)
    config = load_config("smoke", [f"policy.path={tmp_path}"])
    shape, parameters = policy_size(config.policy)
    assert shape == ModelShape.of(model.config)
    assert 0.95 < parameters / model.num_parameters() <= 1  # norms and biases are left out


def test_the_small_policys_shape_equals_that_of_the_created_model() -> None:
    for options in ([], ["policy.hidden_size=96"], ["policy.hidden_size=32"]):
        policy = load_config("smoke", options).policy
        made = ModelShape.of(make_small_model(policy, 512, eos_id=1, bos_id=2, pad_id=0, seed=0).config)
        assert policy_size(policy) == (made, small_policy_parameters(policy))


@pytest.mark.parametrize("targets", ["['all-linear']", "['q_proj', 'down_proj']"])
def test_the_number_of_adapter_parameters_equals_pefts(targets: str) -> None:
    policy = load_config("smoke", [f"policy.lora_target_modules={targets}", "policy.lora_r=3"]).policy
    model = make_small_model(policy, 512, eos_id=1, bos_id=2, pad_id=0, seed=0)
    made = add_adapters(model, policy, seed=0)
    trained = sum(value.numel() for value in made.parameters() if value.requires_grad)
    assert adapter_parameters(policy, ModelShape.of(model.config)) == trained


def test_needed_memory_includes_the_learners(folder: Path) -> None:
    small, large = load_config("smoke"), load_config("smoke", [f"policy.path={folder}"])
    assert needed_bytes(small) < 3 * GIB
    full = learner_estimate(large)
    assert full.weights == pytest.approx(4 * 494e6, rel=0.01)
    assert needed_bytes(large) > WORKER_BYTES + full.total > 8 * GIB
    frozen = ["policy.use_peft=true", "policy.dtype=bfloat16"]
    assert needed_bytes(load_config("smoke", [f"policy.path={folder}", *frozen])) < needed_bytes(large) - 4 * GIB
    operating = load_config("smoke", [f"policy.path={folder}", "grouping.gradient_surgery=cagrad"])
    assert needed_bytes(operating) - needed_bytes(large) == learner_estimate(operating).total - full.total
    assert learner_estimate(operating).surgery == 7 * full.gradients


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"num_attention_heads": 0, "hidden_size": 1}', None])
def test_unreadable_model_folder_counts_as_the_small_policy(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    assert needed_bytes(load_config("smoke", [f"policy.path={tmp_path}"])) == needed_bytes(load_config("smoke"))


def test_a_run_that_does_not_fit_in_memory_is_refused_before_anything_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.runtime.memory, "available_bytes", lambda: 4 * GIB)
    check_memory(load_config("smoke"))
    check_memory(load_config("smoke", [f"policy.path={folder}", "run.ray_address=auto"]))  # its actors run elsewhere
    with pytest.raises(RunError, match=r"its learner \d.*weights 1.84.*4.0 GiB are free; lower .* size$"):
        check_memory(load_config("smoke", [f"policy.path={folder}"]))
    with pytest.raises(RunError, match=r"gradient surgery 12.*, or set grouping.gradient_surgery = none$"):
        check_memory(load_config("smoke", [f"policy.path={folder}", "grouping.gradient_surgery=pcgrad"]))


def test_the_memory_check_does_not_import_torch() -> None:
    code = "import sys, cluster.runtime.memory; print(sorted({'torch', 'transformers', 'peft'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
