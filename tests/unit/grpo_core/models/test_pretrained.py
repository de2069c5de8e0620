from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerBase, Qwen3ForCausalLM

from grpo_core.errors import CheckpointError
from grpo_core.models.pretrained import (
    add_tokens,
    load_model,
    make_small_model,
    named_tensors,
    save_model,
    weights_payload,
)
from grpo_core.settings import PolicySettings
from services.inference.word_tokenizer import make_word_tokenizer
from tests.unit.grpo_core.support.cases import load_payload

WORDS = [f"w{number}" for number in range(40)]
VOCABULARY = len(WORDS) + 4
TINY = PolicySettings(hidden_size=64, layers=2, intermediate_size=96, context_length=128)
LLAMA = TINY.model_copy(update={"architecture": "llama"})


def tiny(settings: PolicySettings = TINY, seed: int = 0, vocab_size: int = VOCABULARY) -> PreTrainedModel:
    return make_small_model(settings, vocab_size, eos_id=2, bos_id=1, pad_id=0, seed=seed)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return make_word_tokenizer(WORDS, r"\S+")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, tokenizer: PreTrainedTokenizerBase) -> Path:
    folder = tmp_path_factory.mktemp("models") / "policy"
    save_model(tiny(), tokenizer, folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "policy"))


def test_new_tokens_leave_what_the_model_says_of_its_own() -> None:
    model, other, same = tiny(), tiny(), tiny()
    ids = torch.arange(4, 20)[None]
    before = model(ids).logits
    state = torch.random.get_rng_state()
    for each, seed in ((model, 3), (same, 3), (other, 4)):
        add_tokens(each, VOCABULARY + 5, seed)
    assert torch.equal(torch.random.get_rng_state(), state), "the caller's random state was touched"
    assert model.config.vocab_size == VOCABULARY + 5
    with torch.no_grad():
        after = model(ids).logits
    assert torch.equal(after[..., :VOCABULARY], before)
    assert after[..., VOCABULARY:].softmax(-1).sub(1 / 5).abs().max() < 0.05, "about uniform among the new ones"
    assert weights_payload(model) == weights_payload(same) != weights_payload(other)
    kept = weights_payload(model)
    add_tokens(model, VOCABULARY, 5)
    assert weights_payload(model) == kept


@pytest.mark.parametrize(("settings", "kind"), [(TINY, Qwen3ForCausalLM), (LLAMA, LlamaForCausalLM)])
def test_small_models_are_of_the_named_class_and_repeat_with_the_seed(
    settings: PolicySettings, kind: type[PreTrainedModel]
) -> None:
    before = torch.random.get_rng_state()
    model, same, other = tiny(settings), tiny(settings), tiny(settings, seed=1)
    assert torch.equal(torch.random.get_rng_state(), before), "the caller's random state was touched"
    assert type(model) is kind
    assert model.lm_head.weight is not model.get_input_embeddings().weight
    assert {tensor.dtype for tensor in model.parameters()} == {torch.float32}
    assert weights_payload(model) == weights_payload(same)
    assert weights_payload(model) != weights_payload(other)


@pytest.mark.parametrize("settings", [TINY, LLAMA, PolicySettings()])
def test_an_untrained_policy_is_nearly_uniform(settings: PolicySettings) -> None:
    ids = torch.randint(VOCABULARY, (8, 50), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        probabilities = torch.softmax(tiny(settings)(ids).logits, -1) * VOCABULARY
    assert float(probabilities.min()) > 0.7
    assert float(probabilities.max()) < 1.4


@pytest.mark.parametrize(("hidden_size", "heads", "groups"), [(64, 2, 1), (128, 4, 2), (160, 5, 1), (288, 9, 3)])
def test_every_key_head_serves_equally_many_queries(hidden_size: int, heads: int, groups: int) -> None:
    model = tiny(PolicySettings(hidden_size=hidden_size, layers=1))
    assert (model.config.num_attention_heads, model.config.num_key_value_heads) == (heads, groups)
    model(torch.tensor([[1, 2, 3]]))


def test_a_hidden_size_that_is_no_multiple_of_head_dim_is_refused() -> None:
    with pytest.raises(ValueError, match="hidden_size 80 is not a multiple of head_dim 32"):
        tiny(PolicySettings(hidden_size=80))


@pytest.mark.parametrize("settings", [TINY, LLAMA])
def test_a_saved_folder_loads_the_same_model_and_tokenizer(
    settings: PolicySettings, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    model = tiny(settings)
    save_model(model, tokenizer, tmp_path / "deep" / "er")
    assert sorted(path.suffix for path in (tmp_path / "deep" / "er").iterdir() if path.suffix != ".json") == [
        ".safetensors"
    ]
    loaded, words = load_model(tmp_path / "deep" / "er")
    assert type(loaded) is type(model)
    assert not loaded.training
    assert weights_payload(loaded) == weights_payload(model)
    assert words.encode("w3 w5") == [7, 9]


def refusal(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_model(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


def test_folders_that_are_not_checkpoints_are_named(tmp_path: Path) -> None:
    assert "is not a folder" in refusal(tmp_path / "absent")
    assert "no config.json" in refusal(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"architectures": null}', '{"architectures": ["BertModel"]}'])
def test_a_config_of_another_kind_is_refused(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    assert "config.json" in refusal(folder)


def test_a_config_of_an_unknown_architecture_is_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "nonesuch"}))
    assert "nonesuch" in refusal(folder)


def test_missing_weights_are_named_and_pickles_are_never_read(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "has no model.safetensors" in refusal(folder)
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n(S'false'\ntR.")
    assert "pickled and never read" in refusal(folder)


@pytest.mark.parametrize("keep", [0, 5, 1000, -1])
def test_truncated_weights_are_refused(folder: Path, keep: int) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    assert "damaged or truncated" in refusal(folder)


def test_a_missing_shard_is_named(folder: Path) -> None:
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors"}}))
    assert "has no model-00002-of-00002.safetensors" in refusal(folder)
    index.write_text("{}")
    assert "not a safetensors index" in refusal(folder)


def test_weights_and_tokenizers_of_other_models_are_refused(
    folder: Path, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    deeper = tmp_path / "deeper"
    save_model(tiny(TINY.model_copy(update={"layers": 3})), tokenizer, deeper)
    for source, target in ((deeper, folder), (folder, deeper)):
        original = (target / "model.safetensors").read_bytes()
        shutil.copy(source / "model.safetensors", tmp_path / "spare")
        (target / "model.safetensors").write_bytes((tmp_path / "spare").read_bytes())
        assert "model.layers.2" in refusal(target)
        (target / "model.safetensors").write_bytes(original)
    wider = tmp_path / "wider"
    save_model(tiny(TINY.model_copy(update={"hidden_size": 96})), tokenizer, wider)
    shutil.copy(wider / "model.safetensors", folder / "model.safetensors")
    refusal(folder)
    small = tmp_path / "small"
    save_model(tiny(vocab_size=20), tokenizer, small)
    assert "tokenizer has 44 tokens, the model 20" in refusal(small)


def test_a_missing_or_damaged_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    refusal(folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    assert "no tokenizer" in refusal(folder)


def test_payloads_carry_weights_exactly() -> None:
    source, target = tiny(seed=1), tiny(seed=2)
    load_payload(target, memoryview(weights_payload(source)))
    ids = torch.arange(4, 24)[None]
    with torch.inference_mode():
        assert torch.equal(source(ids).logits, target(ids).logits)


def test_a_payload_holds_tied_embeddings_once() -> None:
    model = tiny()
    model.config.tie_word_embeddings = True
    model.tie_weights()
    names = set(named_tensors(model))
    assert len(names) == len(named_tensors(tiny())) - 1
    other = tiny(seed=3)
    other.config.tie_word_embeddings = True
    other.tie_weights()
    load_payload(other, weights_payload(model))
    assert torch.equal(other.lm_head.weight, model.lm_head.weight)
    assert torch.equal(other.get_input_embeddings().weight, model.get_input_embeddings().weight)


def test_payloads_of_other_models_are_refused_and_change_nothing() -> None:
    model = tiny()
    before = weights_payload(model)
    for payload, complaint in (
        (b"", "not safetensors"),
        (before[:-1], "not safetensors"),
        (b"\x80\x04." + before, "not safetensors"),
        (weights_payload(tiny(TINY.model_copy(update={"layers": 1}))), "missing model.layers.1"),
        (weights_payload(tiny(TINY.model_copy(update={"layers": 3}))), "unexpected model.layers.2"),
        (weights_payload(tiny(vocab_size=20)), "another shape"),
    ):
        with pytest.raises(CheckpointError, match=complaint):
            load_payload(model, payload)
    assert weights_payload(model) == before
