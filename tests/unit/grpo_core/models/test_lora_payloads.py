"""Adapter payloads: one self-describing file, and its merge with the base model, compared with peft."""

from __future__ import annotations

import copy
import functools
import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load, load_file
from torch import Tensor, nn

from grpo_core.errors import CheckpointError
from grpo_core.models.lora import (
    adapter_config_of,
    adapter_payload,
    add_adapters,
    folder_payload,
    merged,
    save_adapters,
)
from grpo_core.models.lora_merge import fingerprint
from grpo_core.models.named_tensors import from_safetensors, named_tensors, to_safetensors
from grpo_core.models.pretrained import policy_payload, weights_payload
from grpo_core.settings import PolicySettings
from tests.unit.grpo_core.support.adapters import logits, moved
from tests.unit.grpo_core.support.cases import load_payload, tiny_model

LORA = PolicySettings(use_peft=True, lora_r=3, lora_alpha=5)
ARCHITECTURES = ["qwen3", "qwen2"]  # the second has tied embeddings and biases
LAYER = "model.layers.0.self_attn.q_proj"
A = f"base_model.model.{LAYER}.lora_A.weight"


def adapted(architecture: str = "qwen3", settings: PolicySettings = LORA) -> nn.Module:
    return moved(add_adapters(tiny_model(architecture), settings, seed=1))


@functools.cache
def good_payload() -> bytes:
    return adapter_payload(adapted())


@functools.cache
def untrained() -> Mapping[str, Tensor]:
    """The base's weights, which a merge does not change."""
    return named_tensors(tiny_model())


def by_peft(model: nn.Module) -> Mapping[str, Tensor]:
    return named_tensors(copy.deepcopy(model).merge_and_unload())


def test_a_payload_is_what_peft_saves_in_one_file(tmp_path: Path) -> None:
    model = adapted()
    payload = adapter_payload(model)
    with warnings.catch_warnings(action="ignore"):
        model.save_pretrained(tmp_path, save_embedding_layers=False)
    saved = load_file(tmp_path / "adapter_model.safetensors")
    sent = load(payload)
    assert sent.keys() == saved.keys()
    assert all(torch.equal(sent[name], tensor) and tensor.dtype == torch.float32 for name, tensor in saved.items())
    header = json.loads(payload[8 : 8 + int.from_bytes(payload[:8], "little")])
    assert header["__metadata__"].keys() == {"format", "adapter_config"}
    assert header["__metadata__"]["format"] == "pt"
    config = json.loads(header["__metadata__"]["adapter_config"])
    expected = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["target_modules"] == sorted(expected.pop("target_modules"))
    assert {name: config[name] for name in expected if name != "base_model_name_or_path"} == {
        name: value for name, value in expected.items() if name != "base_model_name_or_path"
    }
    assert config["base_model_name_or_path"] is None, "a folder would differ after a restart"
    assert config["r"] == LORA.lora_r
    assert adapter_config_of(memoryview(payload)) == header["__metadata__"]["adapter_config"]


def test_equal_adapters_have_equal_payloads_and_full_weights_have_no_adapter_config(tmp_path: Path) -> None:
    model = adapted()
    assert policy_payload(model) == adapter_payload(model) == adapter_payload(adapted())
    assert len({to_safetensors({}, {name: name for name in order}) for order in ("abcd", "dcba", "bdac")}) == 1
    plain = tiny_model()
    assert policy_payload(plain) == weights_payload(plain)
    assert adapter_config_of(policy_payload(plain)) is None
    with pytest.raises(CheckpointError, match="these are full weights"):
        merged(named_tensors(plain), weights_payload(plain))
    with pytest.raises(CheckpointError, match="this is an adapter"):
        load_payload(plain, policy_payload(model))


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"\0" * 7, b"\0" * 8, b"not safetensors", (9).to_bytes(8, "little") + b"{}", b"\xff" * 64),
        *((2).to_bytes(8, "little") + text for text in (b"[]", b"{x", b"\xff\xfe", b"11")),
        (19).to_bytes(8, "little") + b'{"__metadata__":[]}',
        (25).to_bytes(8, "little") + b'{"__metadata__":{"a": 1}}',
        (100_000).to_bytes(8, "little") + b"[" * 100_000,
    ],
    ids=range(13),
)
def test_malformed_headers_are_refused_in_one_line(payload: bytes) -> None:
    with pytest.raises(CheckpointError, match=r"^weights are not safetensors: [^\n]+$"):
        adapter_config_of(payload)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("targets", [("all-linear",), ("q_proj", "down_proj"), ("o_proj",)], ids=str)
def test_merging_equals_pefts_and_shares_the_tensors_it_does_not_change(
    architecture: str, targets: tuple[str, ...]
) -> None:
    model = adapted(architecture, LORA.model_copy(update={"lora_target_modules": targets}))
    base = named_tensors(tiny_model(architecture))
    untouched = {name: value.clone() for name, value in base.items()}
    full, expected = merged(base, memoryview(adapter_payload(model))), by_peft(model)
    assert list(full) == list(base)
    assert full.keys() == expected.keys()
    changed = set()
    for name, tensor in full.items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=1e-6)
        assert torch.equal(base[name], untouched[name])
        if tensor is not base[name]:
            assert not torch.equal(tensor, base[name])
            changed.add(name.split(".")[-2])
    every = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert changed == (every if targets == ("all-linear",) else set(targets))
    plain = tiny_model(architecture, seed=9)
    load_payload(plain, to_safetensors(full))
    torch.testing.assert_close(logits(plain), logits(model), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rslora", [False, True])
def test_adapters_made_by_peft_merge_with_their_own_scale_and_type(rslora: bool) -> None:
    config = LoraConfig(r=4, lora_alpha=7, target_modules=["v_proj", "lm_head"], use_rslora=rslora)
    model = moved(get_peft_model(tiny_model(), config, autocast_adapter_dtype=False))
    full, expected = merged(named_tensors(tiny_model()), adapter_payload(model)), by_peft(model)
    assert not torch.equal(full["lm_head.weight"], tiny_model().lm_head.weight)
    for name, tensor in full.items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=1e-6)
    halved = from_safetensors(adapter_payload(model.to(torch.bfloat16)))
    assert {tensor.dtype for tensor in halved.values()} == {torch.bfloat16}


def test_merging_into_a_bf16_base_rounds_the_fp32_result() -> None:
    rough = tiny_model().to(torch.bfloat16)
    payload = adapter_payload(moved(add_adapters(copy.deepcopy(rough), LORA, seed=1)))
    exact = {name: value.float() for name, value in named_tensors(rough).items()}
    in_fp32, in_bf16 = merged(exact, payload), merged(named_tensors(rough), payload)
    assert {tensor.dtype for tensor in in_bf16.values()} == {torch.bfloat16}
    assert all(torch.equal(in_fp32[name].bfloat16(), tensor) for name, tensor in in_bf16.items())


def test_a_fingerprint_depends_on_names_shapes_and_values_but_not_on_the_sign_of_zero() -> None:
    tensors = {"w": torch.arange(300.0).reshape(3, 100), "b": torch.zeros(5)}
    name = fingerprint(tensors)
    assert fingerprint(dict(reversed(tensors.items()))) == name
    assert fingerprint({**tensors, "b": -torch.zeros(5)}) == name
    for other in ({"w": tensors["w"]}, {**tensors, "w": tensors["w"].T}, {**tensors, "b": torch.ones(5)}):
        assert fingerprint(other) != name


def changed(change: Callable[[dict[str, Tensor]], object], **config: object) -> bytes:
    """A good adapter's payload with something done to its tensors or its configuration."""
    good = good_payload()
    tensors = dict(from_safetensors(good))
    change(tensors)
    text = json.dumps({**json.loads(adapter_config_of(good) or ""), **config})
    return to_safetensors(tensors, {"adapter_config": text})


def nothing(_: dict[str, Tensor]) -> None: ...


def also(name: str) -> Callable[[dict[str, Tensor]], None]:
    return lambda tensors: tensors.update({name: tensors[A].clone()})


BAD = {
    "another rank": (nothing, {"r": 4, "revision": None}, r"q_proj|down_proj.*expected \(4, "),
    "another shape": (lambda t: t.update({A: torch.zeros(3, 65)}), {}, r"\(3, 65\).*expected \(3, 64\)"),
    "a lonely factor": (lambda t: t.pop(A), {}, "only one of the two factors of model.layers.0.self_attn.q_proj"),
    "no tensors": (lambda t: t.clear(), {}, "has no tensors"),
    "a layer of another model": (
        also(A.replace("layers.0", "layers.7")),
        {},
        "layers.7.*no linear layer of this model",
    ),
    "a norm": (also("base_model.model.model.norm.lora_A.weight"), {}, "changes model.norm, which is no linear layer"),
    "another name": (also("x"), {}, "another kind: it has a tensor x"),
    "a bias": (also(A.replace("A.weight", "B.bias")), {}, "another kind: it has a tensor .*lora_B.bias"),
    "another kind": (nothing, {"peft_type": "LOHA"}, "this is LOHA"),
    "DoRA": (nothing, {"use_dora": True}, "use_dora"),
    "ranks of its own": (nothing, {"alpha_pattern": {"q_proj": 3}}, "alpha_pattern"),
    "trained biases": (nothing, {"bias": "all"}, "bias"),
    "a changed base": (nothing, {"init_lora_weights": "pissa"}, "init_lora_weights"),
    "no rank": (nothing, {"r": None}, "has r None"),
    "no number": (nothing, {"lora_alpha": "much"}, "configuration cannot be read"),
    "another base": (nothing, {"revision": "weights-0123456789abcdef"}, "trained in other weights"),
}


@pytest.mark.parametrize("case", BAD)
def test_adapters_that_do_not_fit_are_refused_in_one_line(case: str) -> None:
    change, config, complaint = BAD[case]
    with pytest.raises(CheckpointError, match=complaint) as caught:
        merged(untrained(), changed(change, **config))
    assert "\n" not in str(caught.value)


def test_adapters_of_tied_embeddings_or_another_base_are_refused() -> None:
    factors = {"lora_A": torch.zeros(3, 64), "lora_B": torch.zeros(24, 3)}
    head = {f"base_model.model.lm_head.{part}.weight": value for part, value in factors.items()}
    payload = changed(lambda tensors: (tensors.clear(), tensors.update(head)), revision=None)
    assert "lm_head.weight" in merged(untrained(), payload)
    with pytest.raises(CheckpointError, match="changes lm_head, which is no linear layer of this model"):
        merged(named_tensors(tiny_model("qwen2")), payload)
    with pytest.raises(CheckpointError, match="trained in other weights than these; take both from the same run"):
        merged(named_tensors(tiny_model(seed=1)), good_payload())


def test_an_adapter_config_that_is_not_a_json_object_is_refused() -> None:
    for text in ("", "[]", "{", "3"):
        payload = to_safetensors(from_safetensors(good_payload()), {"adapter_config": text})
        with pytest.raises(CheckpointError, match="configuration cannot be read"):
            merged(untrained(), payload)


def test_a_saved_adapter_folder_names_its_base_by_fingerprint(tmp_path: Path) -> None:
    model = adapted()
    save_adapters(model, tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["revision"] == fingerprint(named_tensors(tiny_model()))


@pytest.mark.parametrize("targets", [("all-linear",), ("v_proj", "q_proj")])
def test_a_saved_adapter_has_the_bytes_of_the_sent_one(targets: tuple[str, ...], tmp_path: Path) -> None:
    model = adapted(settings=LORA.model_copy(update={"lora_target_modules": targets}))
    save_adapters(model, tmp_path)
    assert folder_payload(tmp_path) == adapter_payload(model)
    path = tmp_path / "adapter_config.json"
    config = json.loads(path.read_text())
    config["target_modules"].reverse()  # another process may write the names in another order
    path.write_text(json.dumps(config))
    assert folder_payload(tmp_path) == adapter_payload(model)


@pytest.mark.parametrize("text", ["{", "3", "[1, 2]"])
def test_a_saved_adapter_with_a_damaged_configuration_is_refused(text: str, tmp_path: Path) -> None:
    save_adapters(adapted(), tmp_path)
    (tmp_path / "adapter_config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"configuration .* cannot be read"):
        folder_payload(tmp_path)
