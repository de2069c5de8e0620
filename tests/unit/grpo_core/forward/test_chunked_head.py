"""The chunked head compared with a log-softmax over all logits at once, in double precision."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from grpo_core.forward import chunked_head as vocabulary_head
from grpo_core.forward.chunked_head import vocabulary_logprobs

HIDDEN = 16


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary_head, "_BLOCK_LOGITS", {"cpu": 1})
    monkeypatch.setattr(vocabulary_head, "_FEWEST_IDS", 64)


def problem(tokens: int, ids: int, seed: int, scale: float = 0.3) -> tuple[Tensor, ...]:
    """Hidden states, weight, bias, temperatures, chosen ids, and what each token's two results count."""
    torch.manual_seed(seed)
    hidden, weight = torch.randn(tokens, HIDDEN), scale * torch.randn(ids, HIDDEN)
    temperature = 0.5 + torch.rand(tokens)
    return hidden, weight, torch.randn(ids), temperature, torch.randint(0, ids, (tokens,)), torch.randn(2, tokens)


def reference(hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: Tensor, chosen: Tensor):
    logits = hidden.double() @ weight.double().T + (0 if bias is None else bias.double())
    logs = torch.log_softmax(logits / temperature.double()[:, None], -1)
    return logs[torch.arange(len(chosen)), chosen], -(logs.exp() * logs).sum(-1)


def gradients(function, inputs: list[Tensor], *rest: Tensor, counts: Tensor) -> list[Tensor]:
    leaves = [value.clone().requires_grad_() for value in inputs]
    hidden, weight, bias = [*leaves, None][:3]
    chosen, entropy = function(hidden, weight, bias, *rest)
    (counts[0] * chosen + counts[1] * entropy).sum().backward()
    return [leaf.grad for leaf in leaves]


@settings(max_examples=20, deadline=None)
@given(tokens=st.integers(1, 70), ids=st.integers(2, 300), seed=st.integers(0, 2**31), biased=st.booleans())
def test_chunked_values_and_gradients_equal_those_of_all_logits_at_once(tokens, ids, seed, biased):
    hidden, weight, bias, temperature, chosen, counts = problem(tokens, ids, seed)
    inputs = [hidden, weight, bias] if biased else [hidden, weight]
    found = vocabulary_logprobs(hidden, weight, bias if biased else None, temperature, chosen)
    expected = reference(hidden, weight, bias if biased else None, temperature, chosen)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one.double(), other, atol=3e-5, rtol=1e-5)
    own = gradients(vocabulary_logprobs, inputs, temperature, chosen, counts=counts)
    for one, other in zip(own, gradients(reference, inputs, temperature, chosen, counts=counts), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("which", [0, 1])
def test_each_result_alone_has_its_own_gradient(which):
    hidden, weight, bias, temperature, chosen, counts = problem(5, 200, 3)
    leaf = hidden.clone().requires_grad_()
    (counts[which] * vocabulary_logprobs(leaf, weight, bias, temperature, chosen)[which]).sum().backward()
    one = counts * torch.eye(2)[which][:, None]
    expected = gradients(reference, [hidden, weight, bias], temperature, chosen, counts=one)[0]
    torch.testing.assert_close(leaf.grad, expected, atol=3e-5, rtol=1e-3)


def test_a_frozen_head_gets_no_gradient():
    hidden, weight, bias, temperature, chosen, counts = problem(5, 200, 3)
    leaf = hidden.clone().requires_grad_()
    (counts[0] * vocabulary_logprobs(leaf, weight, bias, temperature, chosen)[0]).sum().backward()
    assert weight.grad is None
    assert leaf.grad is not None


def test_large_logits_do_not_overflow_or_vanish():
    hidden, weight, bias, temperature, chosen, _ = problem(6, 300, 1, scale=500.0)
    found = vocabulary_logprobs(hidden, weight, bias, temperature, chosen)
    for one, other in zip(found, reference(hidden, weight, bias, temperature, chosen), strict=True):
        torch.testing.assert_close(one.double(), other, atol=1e-2, rtol=1e-5)


@pytest.mark.parametrize("autocast", [False, True])
def test_bfloat16_rounds_only_the_products(autocast):
    hidden, weight, _, temperature, chosen, counts = problem(7, 300, 2)
    if not autocast:
        hidden, weight = hidden.bfloat16(), weight.bfloat16()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = vocabulary_logprobs(hidden, weight, None, temperature, chosen)
        own = gradients(vocabulary_logprobs, [hidden, weight], temperature, chosen, counts=counts)
    logits = torch.nn.functional.linear(hidden.bfloat16(), weight.bfloat16()).float()
    logs = torch.log_softmax(logits / temperature[:, None], -1)
    torch.testing.assert_close(found[0], logs[torch.arange(7), chosen], atol=1e-5, rtol=1e-5)
    assert [gradient.dtype for gradient in own] == [hidden.dtype, weight.dtype]
    exact = gradients(reference, [hidden, weight], temperature, chosen, counts=counts)
    for one, other in zip(own, exact, strict=True):
        assert float((one - other).float().norm() / other.float().norm()) < 0.03


class _Largest(TorchDispatchMode):
    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for value in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(value, Tensor):
                self.elements = max(self.elements, value.numel())
        return out


def test_logits_of_the_whole_vocabulary_never_exist_at_once():
    hidden, weight, _, temperature, chosen, counts = problem(64, 4096, 2)
    with _Largest() as seen:
        gradients(vocabulary_logprobs, [hidden, weight], temperature, chosen, counts=counts)
    assert seen.elements == weight.numel() < 64 * 4096
