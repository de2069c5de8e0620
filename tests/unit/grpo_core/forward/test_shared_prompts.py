"""Turns that answer one prompt: their log-probabilities and gradients are those of whole rows, with fewer tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from grpo_core.batching.microbatches import MicroBatch, TrainingTurn, micro_batches, training_turns
from grpo_core.batching.shared_prompts import split_with_shared_prompts
from grpo_core.forward.logprobs import token_logprobs
from grpo_core.forward.policy_forward import PolicyForward
from grpo_core.models.pretrained import make_small_model
from grpo_core.settings import PolicySettings
from tests.unit.grpo_core.support.cases import (
    VOCABULARY,
    episode_of,
    prompt_groups,
    ragged_episodes,
    ragged_turn,
    tiny_model,
)


def batches(turns: tuple[TrainingTurn, ...], budget: int, *, share: bool) -> list[MicroBatch]:
    nothing = np.zeros(len(turns), np.float32)
    return micro_batches(turns, nothing, np.ones(len(turns)), budget, share_prompts=share)


def computed(
    model: Any, turns: tuple[TrainingTurn, ...], micros: list[MicroBatch]
) -> tuple[torch.Tensor, torch.Tensor]:
    parts: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for micro in micros:
        found = token_logprobs(model, micro, entropy_grad=True)
        sizes = torch.bincount(micro.row_N).tolist()
        parts |= dict(zip(micro.turns, zip(*(each.split(sizes) for each in found), strict=True), strict=True))
    return tuple(torch.cat([parts[turn.turn][place] for turn in turns]) for place in (0, 1))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("architecture", "free", "temperature"),
    [("qwen3", False, 0.7), ("qwen3", True, 1.3), ("llama", True, 1.0), ("qwen2", False, 1.0)],
)
@pytest.mark.parametrize("budget", [40, 150, 10_000])
def test_values_and_gradients_are_those_of_whole_rows(
    architecture: str, free: bool, temperature: float, budget: int
) -> None:
    model = tiny_model(architecture)
    turns = training_turns(prompt_groups(1, free=free, temperature=temperature), 0)
    found = []
    for share in (False, True):
        micros = batches(turns, budget, share=share)
        if budget > 40:  # where a micro-batch has room for several rows
            assert {micro.prompts is not None for micro in micros} == {share}
        chosen, entropy = computed(model, turns, micros)
        wave = torch.sin(torch.arange(len(chosen)))
        gradients = torch.autograd.grad(((chosen + 0.3 * entropy) * wave).sum(), list(model.parameters()))
        found.append((chosen.detach(), entropy.detach(), *gradients))
    for plain, shared in zip(*found, strict=True):
        torch.testing.assert_close(shared, plain, atol=2e-4, rtol=1e-3)


def test_a_prompt_goes_through_the_model_once() -> None:
    turns = training_turns(prompt_groups(2, free=True), 0)
    (plain,), (shared,) = (batches(turns, 10_000, share=share) for share in (False, True))
    assert shared.prompts is not None
    assert shared.prompts.ids.shape[0] == 5
    assert shared.tokens == plain.tokens == plain.computed
    rests = [len(turn.input_ids) - (turn.prompt_length - 1) for turn in turns]
    assert shared.computed == shared.prompts.tokens + sum(rests)
    assert shared.computed <= shared.padded < 0.5 * plain.padded


def test_turns_of_different_prompts_are_whole_rows() -> None:
    turns = training_turns(ragged_episodes(3), 0)
    for share, other in zip(*(batches(turns, 200, share=share) for share in (True, False)), strict=True):
        assert share.prompts is None
        assert share.turns == other.turns
        assert torch.equal(share.input_ids, other.input_ids)


@given(
    lengths=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30), st.integers(0, 12)), min_size=1, max_size=40),
    budget=st.integers(1, 300),
)
def test_chunks_hold_every_row_once_within_the_budget(lengths: list[tuple[int, int, int]], budget: int) -> None:
    inputs = [np.full(length + rest, name, np.int32) for name, length, rest in lengths]
    prompt_lengths = [length for _, length, _ in lengths]
    chunks, computed = split_with_shared_prompts(inputs, prompt_lengths, budget)
    assert sorted(row for chunk in chunks for row in chunk) == list(range(len(lengths)))
    total = 0
    for chunk in chunks:
        prompts = {(name if length > 1 else None, length) for name, length, _ in map(lengths.__getitem__, chunk)}
        longest = max(1, *(length - 1 for _, length in prompts)) if prompts else 1
        size = len(prompts) * longest + len(chunk) * max(lengths[row][2] + 1 for row in chunk)
        assert size <= 0.75 * budget or len(chunk) == 1
        total += sum(length - 1 for _, length in prompts) + sum(lengths[row][2] + 1 for row in chunk)
    assert computed == total


@pytest.mark.parametrize(("prompt", "answer", "budget"), [(200, 8, 1024), (40, 16, 2048), (300, 100, 2048)])
def test_shared_prompts_keep_no_more_for_the_backward_pass_than_whole_rows(
    prompt: int, answer: int, budget: int
) -> None:
    rng = np.random.default_rng(0)
    prompt_ids, completion = (rng.integers(3, VOCABULARY, length, dtype=np.int32) for length in (prompt, answer))
    turn = replace(
        ragged_turn(rng, free=True),
        prompt_ids=prompt_ids,
        completion_ids=completion,
        logprobs=np.full(answer, -3, np.float32),
        trained_mask=np.ones(answer, bool),
    )
    turns = training_turns([episode_of((turn,), name=f"b/{number}") for number in range(64)], 0)
    settings = PolicySettings(hidden_size=64, layers=4, intermediate_size=192, context_length=512)
    model = make_small_model(settings, VOCABULARY, eos_id=1, bos_id=2, pad_id=0, seed=0)
    most = []
    for share in (False, True):
        micros = batches(turns, budget, share=share)
        assert {micro.prompts is not None for micro in micros} == {share}
        most.append(max(kept_bytes(model, micro) for micro in micros))
    assert most[1] <= most[0]


def kept_bytes(model: nn.Module, micro: MicroBatch) -> int:
    """Bytes of the tensors that the backward pass of a micro-batch needs, without the model's own."""
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        chosen, _ = token_logprobs(model, micro)
        for parameter in model.parameters():
            kept.pop(parameter.untyped_storage().data_ptr(), None)
        assert chosen.requires_grad
    return sum(kept.values())


@pytest.mark.parametrize(("checkpointing", "shares"), [(False, True), (True, False)])
def test_blocks_that_are_called_whole_share_nothing(checkpointing: bool, shares: bool) -> None:
    assert PolicyForward(tiny_model(), gradient_checkpointing=checkpointing).shares_prompts == shares
