"""Faster layers give the numbers and gradients of torch's own, or leave a module as it is."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from grpo_core.forward import fast_layers
from grpo_core.forward.fast_layers import gated, linear, padded_count, root_mean_square_norm, use_fast_layers
from grpo_core.models.pretrained import make_small_model
from grpo_core.settings import PolicySettings

if not use_fast_layers(nn.Linear(2, 2)):
    pytest.skip("this processor has no AVX-512: torch's own layers are used", allow_module_level=True)

IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


def _small() -> PreTrainedModel:
    return make_small_model(PolicySettings(), 40, eos_id=1, bos_id=2, pad_id=0, seed=5)


def _biased_llama() -> PreTrainedModel:
    torch.manual_seed(3)
    sizes = {"vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    return LlamaForCausalLM(
        LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=2, attention_bias=True, mlp_bias=True)
    )


def _shaken(model: PreTrainedModel) -> PreTrainedModel:
    """Norm weights and biases away from the ones and zeros that would hide a mistake."""
    generator = torch.Generator().manual_seed(7)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    return model.eval()


@pytest.mark.parametrize("kind", ["small", "llama"])
def test_an_inference_model_gives_the_logits_of_its_original(kind: str) -> None:
    original = _shaken(_small() if kind == "small" else _biased_llama())
    fast = copy.deepcopy(original)
    assert use_fast_layers(fast) == sum(isinstance(module, nn.Linear) for module in original.modules())
    with torch.inference_mode():
        torch.testing.assert_close(fast(input_ids=IDS).logits, original(input_ids=IDS).logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fast_functions_equal_the_modules_of_transformers(dtype: torch.dtype) -> None:
    block = _shaken(_small()).to(dtype).get_decoder().layers[0]
    hidden = torch.randn(5, 128, generator=torch.Generator().manual_seed(1)).to(dtype)
    norm, mlp = block.input_layernorm, block.mlp
    with torch.inference_mode():
        normed = root_mean_square_norm(hidden, norm.weight, norm.variance_epsilon)
        torch.testing.assert_close(normed, norm(hidden))
        opened = gated(normed, (mlp.gate_proj.weight, None), (mlp.up_proj.weight, None))
        torch.testing.assert_close(linear(opened, mlp.down_proj.weight, None), mlp(normed), rtol=1e-2, atol=1e-5)


def test_inference_passes_of_any_size_use_few_onednn_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN caches the last thousand kernels, each of half a megabyte."""
    shapes = set()
    once = fast_layers._linear

    def counted(rows: Tensor, *arguments: object) -> Tensor:
        shapes.add(tuple(rows.shape))
        return once(rows, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(fast_layers, "_linear", counted)
    layer, other = nn.Linear(8, 6), nn.Linear(8, 6)
    with torch.inference_mode():
        for count in range(1200):
            rows = torch.full((count, 8), count / 1200)
            found, opened = (
                linear(rows, layer.weight, layer.bias),
                gated(rows, (layer.weight, None), (other.weight, None)),
            )
            assert len(found) == len(opened) == count
            if count % 171 == 1:
                torch.testing.assert_close(found, layer(rows))
    assert len(shapes) < 50


@pytest.mark.parametrize("kind", ["small", "llama"])
def test_gradients_of_fast_layers_equal_those_of_the_original(kind: str) -> None:
    original = _shaken(_small() if kind == "small" else _biased_llama())
    fast = copy.deepcopy(original)
    assert use_fast_layers(fast)
    expected, seen = _gradients(original), _gradients(fast)
    assert expected.keys() == seen.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(seen[name], gradient, rtol=1e-4, atol=1e-5 * float(gradient.abs().max()))


def test_a_frozen_weight_gets_no_gradient_and_its_inputs_get_theirs() -> None:
    layer = nn.Linear(3, 2)
    use_fast_layers(layer)
    layer.weight.requires_grad_(False)
    inputs = torch.randn(4, 3, requires_grad=True)
    layer(inputs).sum().backward()
    assert layer.weight.grad is None
    torch.testing.assert_close(inputs.grad, layer.weight.sum(0).expand(4, 3))


@pytest.mark.parametrize("shape", [(1,), (63,), (64,), (5, 13), (2, 3, 90), (641,), (0,)])
@pytest.mark.parametrize("bias", [True, False])
def test_fast_layers_equal_plain_ones_for_any_number_of_rows(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(2)
    plain = nn.Linear(8, 6, bias=bias)
    fast = copy.deepcopy(plain)
    use_fast_layers(fast)
    inputs, counts = torch.randn(*shape, 8), torch.randn(*shape, 6)
    with torch.no_grad():
        torch.testing.assert_close(fast(inputs), plain(inputs))
    found = []
    for layer in (plain, fast):
        leaf = inputs.clone().requires_grad_()
        out = layer(leaf)
        (counts * out).sum().backward()
        found.append((out, leaf.grad, *(parameter.grad for parameter in layer.parameters())))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_training_passes_of_any_size_use_few_onednn_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, shapes, product = nn.Linear(8, 6, bias=False), set(), fast_layers._linear
    use_fast_layers(layer)

    def recording(input: Tensor, weight: Tensor, *rest: object) -> Tensor:
        shapes.add((input.shape, weight.shape))
        return product(input, weight, *rest)

    monkeypatch.setattr(fast_layers, "_linear", recording)
    for rows in range(1, 2049, 7):
        layer(torch.randn(rows, 8, requires_grad=True)).sum().backward()
    assert len(shapes) == 3 * 20
    assert all(rows <= padded_count(rows) < rows + 128 for rows in range(4096))


def _gradients(model: PreTrainedModel) -> dict[str, Tensor]:
    logits: Tensor = model(input_ids=IDS).logits
    torch.log_softmax(logits, -1)[0, :, 7].sum().backward()
    return {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
