"""Tiny models, requests and comparisons with a plain forward pass, for the tests of the torch engine."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from transformers import (
    GemmaConfig,
    GemmaForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from grpo_core.models.pretrained import make_small_model
from grpo_core.settings import PolicySettings
from services.inference.engine import Generation, GenerationRequest
from services.inference.token_masks import SheetConstraint, SheetState, SlotConstraint
from services.inference.torch_backend.engine import TorchEngine

END, NEWLINE, VOCABULARY, CONTEXT = 2, 3, 48, 128


def peaked_model(architecture: str = "qwen3", seed: int = 0, *, key_value_heads: int = 2, tied: bool = False):
    """A tiny model with peaked distributions: an untrained one is so uniform that wrong weights go unnoticed."""
    settings = PolicySettings(
        architecture=architecture, hidden_size=64, layers=2, intermediate_size=96, context_length=CONTEXT
    )
    model = make_small_model(settings, VOCABULARY, eos_id=END, bos_id=1, pad_id=0, seed=seed)
    if key_value_heads != 2 or tied:
        config = copy.deepcopy(model.config)
        config.num_key_value_heads, config.tie_word_embeddings = key_value_heads, tied
        model = type(model)(config).eval()
    return perturbed(model, seed)


def perturbed(model: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.15)
    return model.eval()


def qwen2_model() -> PreTrainedModel:
    """A model with attention biases, and with more key heads than plain products are used for."""
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "max_position_embeddings": CONTEXT}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4}
    return perturbed(Qwen2ForCausalLM(Qwen2Config(vocab_size=VOCABULARY, **sizes, **heads, eos_token_id=END)))


def dynamic_rope_model() -> PreTrainedModel:
    """A model whose rotary angles depend on the longest sequence of a pass, here never beyond its context."""
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "max_position_embeddings": CONTEXT}
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "rope_parameters": rope}
    return perturbed(LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **sizes, **heads, eos_token_id=END)))


def gemma_model() -> PreTrainedModel:
    """A model that runs through transformers: scaled embeddings, norms that add one, GELU."""
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "max_position_embeddings": CONTEXT}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    return perturbed(GemmaForCausalLM(GemmaConfig(vocab_size=VOCABULARY, **sizes, **heads, eos_token_id=END)))


def order_sheet(rng: random.Random, slots: int) -> SheetConstraint:
    """Slots like those of orders: a forced unit word, then a choice of holds, moves and supports, then a newline."""
    made = []
    for _ in range(slots):
        unit = rng.randint(4, 9)
        alternatives = {(unit, 10, NEWLINE)}
        for place in rng.sample(range(20, 40), rng.randint(0, 4)):
            alternatives |= {(unit, 11, place, NEWLINE), (unit, 12, rng.randint(4, 9), 11, place, NEWLINE)}
        made.append(SlotConstraint(tuple(sorted(alternatives)), (None,) * len(alternatives)))
    return SheetConstraint(tuple(made), END)


def requests(count: int, seed: int = 0, **changes: object) -> list[GenerationRequest]:
    rng = random.Random(seed)
    return [
        GenerationRequest(
            prompt_ids=tuple(rng.randint(1, VOCABULARY - 1) for _ in range(rng.randint(1, 40))),
            constraint=order_sheet(rng, rng.randint(1, 5)),
            seed=rng.randint(0, 2**40),
            **changes,
        )
        for _ in range(count)
    ]


def write(engine: TorchEngine, wanted: Sequence[GenerationRequest]) -> list[Generation]:
    async def write_all() -> list[Generation]:
        return await asyncio.wait_for(asyncio.gather(*map(engine.generate, wanted)), 60)

    return asyncio.run(write_all())


def check_against_plain_forward(
    model: PreTrainedModel, request: GenerationRequest, generation: Generation, tolerance: float = 1e-4
) -> None:
    """Compare every log-probability with a plain forward pass over prompt and completion, renormalised."""
    completion = generation.completion_ids.tolist()
    with torch.inference_mode():
        logits = model(torch.tensor([[*request.prompt_ids, *completion]])).logits[0].double()
    sampled = np.flatnonzero(generation.sampled_mask)
    for number, place in enumerate(sampled):
        admissible = np.arange(VOCABULARY)
        if request.constraint is not None:
            first, end = generation.admissible_offsets[number : number + 2]
            if first < end:  # else the token belongs to a thought
                admissible = generation.admissible_ids[first:end]
        at = logits[len(request.prompt_ids) + place - 1][torch.from_numpy(admissible.astype(np.int64))]
        expected = torch.log_softmax(at / (request.temperature or 1.0), -1)
        chosen = int(np.flatnonzero(admissible == completion[place])[0])
        assert generation.logprobs[place] == pytest.approx(float(expected[chosen]), abs=tolerance)
        if request.temperature == 0:
            assert int(at.argmax()) == chosen
    assert not generation.logprobs[~generation.sampled_mask].any()


def check_follows_sheet(request: GenerationRequest, generation: Generation) -> None:
    """Check that forced and admissible ids are those of the state machine, and that the sheet is complete."""
    assert request.constraint is not None
    state = SheetState(request.constraint)
    written, number = state.forced(), 0
    while not state.finished:
        first, end = generation.admissible_offsets[number : number + 2]
        assert generation.admissible_ids[first:end].tolist() == state.admissible().tolist()
        assert generation.sampled_mask[len(written)]
        token = int(generation.completion_ids[len(written)])
        state.advance(token)
        written += [token, *state.forced()]
        number += 1
    assert generation.completion_ids.tolist() == written
    assert generation.sampled_mask.sum() == number == len(generation.admissible_offsets) - 1
    assert generation.finished
