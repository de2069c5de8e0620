"""A model's folder from elsewhere: whatever its files say, loading it ends soon, with a model or with one line."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from grpo_core.errors import CheckpointError
from grpo_core.models.folder_files import check_files
from grpo_core.models.lora import folder_payload
from grpo_core.models.lora_merge import Lora
from grpo_core.models.pretrained import load_model, load_tokenizer, make_small_model, save_model
from grpo_core.settings import PolicySettings
from services.inference.word_tokenizer import make_word_tokenizer


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("model")
    settings = PolicySettings(hidden_size=32, layers=1, intermediate_size=32)
    model = make_small_model(settings, 6, eos_id=2, bos_id=1, pad_id=0, seed=0)
    save_model(model, make_word_tokenizer(("north", "south"), r"\w+"), folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(written: dict[str, bytes], tmp_path: Path) -> Path:
    for name, content in written.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def refusal(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_model(folder)
    assert len(str(caught.value)) <= 500
    assert str(caught.value).isprintable()
    return str(caught.value)


def loads_or_says_why(folder: Path) -> None:
    try:
        load_model(folder)
    except CheckpointError as error:
        said = str(error)
    else:
        said = str(folder)
    assert str(folder) in said
    assert len(said) <= 500


def set_keys(path: Path, **keys: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_hidden_layers", 10**9),
        ("vocab_size", 10**12),
        ("head_dim", 10**9),
        ("num_labels", 10**10),
        ("hidden_size", 1e308),
        ("n_layer", 10**9),
    ],
)
def test_sizes_without_weights_are_refused_before_a_model_is_built(folder: Path, key: str, value: float) -> None:
    set_keys(folder / "config.json", **{key: value})
    assert f"weights do not fit config.json ({key} is" in refusal(folder)
    set_keys(folder / "config.json", **{key: 1}, text_config={key: value})
    assert f"({key} is" in refusal(folder)


@pytest.mark.parametrize(
    ("model_type", "table", "published"),
    [
        ("qwen3", None, 40960),
        ("llama", None, 10_485_760),
        ("mistral", None, 131_072),
        ("gptj", None, 2048),
        ("gpt_neo", "transformer.wpe.weight", 2048),
        ("gpt2", "wpe.weight", 1024),
        ("opt", "model.decoder.embed_positions.weight", 2048),
    ],
)
def test_positions_are_those_of_the_table_or_of_a_usual_model(
    folder: Path, model_type: str, table: str | None, published: int
) -> None:
    config, weights = folder / "config.json", load_file(folder / "model.safetensors")
    rows = published + 2 * (model_type == "opt")  # it has two rows for padding
    with_table = {**weights, table: np.zeros((rows, 1), np.float32)} if table else weights
    save_file(with_table, folder / "model.safetensors")
    keys = dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), published)
    set_keys(config, model_type=model_type, **keys)
    check_files(folder)
    too_many = 1 << 25 if model_type in ("qwen3", "llama", "mistral") else 60_000
    for tensors in (with_table, weights):
        save_file(tensors, folder / "model.safetensors")
        for key in keys:
            set_keys(config, **{**keys, key: too_many})
            with pytest.raises(CheckpointError, match=rf"\({key} is"):
                check_files(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_attention_heads", 0),
        ("num_key_value_heads", 3),
        ("head_dim", 0),
        ("hidden_act", "no such"),
        ("rope_parameters", {"rope_type": "no such"}),
        ("rope_parameters", 3),
        ("layer_types", ["no such"]),
        ("dtype", "no such"),
        ("quantization_config", 3),
        ("quantization_config", {"quant_method": "no such"}),
        ("model_type", "no such"),
        ("model_type", "t5"),
        ("model_type", ["qwen3"]),
        ("architectures", [3]),
        ("id2label", 7),
        ("rms_norm_eps", "x"),
        ("pad_token_id", "x"),
        ("vocab_size", "x"),
    ],
)
def test_odd_values_of_a_configuration_are_refused_or_of_no_effect(folder: Path, key: str, value: Any) -> None:
    set_keys(folder / "config.json", **{key: value})
    loads_or_says_why(folder)


def test_code_of_a_folder_is_neither_run_nor_asked_about(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asks(*_: object) -> str:
        raise AssertionError("it asked at the terminal")

    monkeypatch.setattr("builtins.input", asks)
    (folder / "evil.py").write_text("raise SystemExit('it ran')")
    names = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    set_keys(folder / "config.json", auto_map=names, model_type="evil")
    assert "cannot be loaded" in refusal(folder)
    set_keys(
        folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Tokenizer", None]}, tokenizer_class="Evil"
    )
    assert "cannot be loaded" in refusal(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "3", '{"a": "\\ud800"}', "", "\0"])
def test_damaged_texts_are_refused_or_of_no_effect(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    loads_or_says_why(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "vocab.txt"])
def test_files_that_are_none_keep_nothing_waiting(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    assert "a FIFO" in refusal(folder)
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    assert "a device" in refusal(folder)
    (folder / name).unlink()
    (folder / name).touch()
    os.truncate(folder / name, 1 << 43)  # of holes; a native library would end the process
    assert "MiB are read" in refusal(folder)


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", "a\0b", 3, None, ["a"], "none.safetensors"])
def test_an_index_names_weights_in_its_folder_alone(folder: Path, name: Any) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"lm_head.weight": name}}))
    (folder.parent / "outside.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    assert "index" in refusal(folder) or name == "none.safetensors"


@pytest.mark.parametrize(
    "edit", [{"vocab": {"north": 1}}, {"vocab": {"north": 10**9}}, {"vocab": {}}, {"type": "no such"}]
)
def test_odd_vocabularies_are_refused_or_small_enough(folder: Path, edit: dict[str, Any]) -> None:
    path = folder / "tokenizer.json"
    document = json.loads(path.read_text())
    document["model"] |= edit
    path.write_text(json.dumps(document))
    try:
        model, tokenizer = load_model(folder)
    except CheckpointError:
        return
    assert max(tokenizer.get_vocab().values(), default=0) < model.config.vocab_size


def test_a_token_beyond_the_embedding_is_refused(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    path = folder / "tokenizer.json"
    document = json.loads(path.read_text())
    document["model"]["vocab"]["south"] = 4000  # as many tokens as before
    path.write_text(json.dumps(document))
    assert len(tokenizer) == 6
    assert "the tokenizer has 4001 tokens, the model 6" in refusal(folder)


@pytest.mark.parametrize("part", ["vocab", "added_tokens"])
def test_an_id_beyond_any_embedding_is_refused_before_memory_is_taken_for_it(folder: Path, part: str) -> None:
    path = folder / "tokenizer.json"
    document = json.loads(path.read_text())
    if part == "vocab":
        document["model"]["vocab"]["south"] = 4 * 10**9
    else:
        document["added_tokens"][0]["id"] = 4 * 10**9
    path.write_text(json.dumps(document))
    assert "has a token with the id 4000000000" in refusal(folder)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[]",
        '{"peft_type": "LORA", "r": 1e999, "lora_alpha": 1}',
        '{"peft_type": "LORA", "r": 1, "lora_alpha": "x"}',
        '{"peft_type": "LORA", "r": 1, "lora_alpha": ' + "9" * 4000 + "}",
    ],
)
def test_odd_configurations_of_an_adapter_are_refused(folder: Path, text: str) -> None:
    with pytest.raises(CheckpointError):
        Lora.of(text)
    (folder / "adapter_config.json").write_text(text)
    with pytest.raises(CheckpointError, match="adapter"):
        folder_payload(folder)


def test_nothing_of_a_folder_reaches_the_terminal_but_the_error(folder: Path) -> None:
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("transformers").addHandler(handler)
    try:
        set_keys(folder / "config.json", intermediate_size=64)  # transformers reports every tensor of another shape
        assert "cannot be loaded" in refusal(folder)
    finally:
        logging.getLogger("transformers").removeHandler(handler)
    assert logged == []
    weights = load_file(folder / "model.safetensors")
    odd = {**weights, "odd\x1b]0;title\x07": weights["lm_head.weight"]}
    save_file(odd, folder / "model.safetensors", {"format": "pt"})
    assert "which no model has" in refusal(folder)
