"""What the torch engine generates: tokens, log-probabilities and counters, compared with plain forward passes."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedModel

from services.inference.engine import EngineError, Generation, GenerationRequest
from services.inference.token_masks import SheetConstraint, SlotConstraint
from services.inference.torch_backend import ragged_pass
from services.inference.torch_backend.engine import TorchEngine
from services.inference.torch_backend.plain_decoder import PlainDecoder
from tests.unit.services.inference.torch_backend.cases import (
    CONTEXT,
    END,
    NEWLINE,
    check_against_plain_forward,
    check_follows_sheet,
    dynamic_rope_model,
    gemma_model,
    order_sheet,
    peaked_model,
    qwen2_model,
    requests,
    write,
)


@pytest.mark.parametrize(
    ("architecture", "key_value_heads", "tied"),
    [("qwen3", 2, False), ("llama", 2, False), ("qwen3", 1, False), ("llama", 1, True)],
)
@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.0])
def test_logprobs_equal_a_plain_forward_pass(
    architecture: str, key_value_heads: int, tied: bool, temperature: float
) -> None:
    check_logprobs(peaked_model(architecture, key_value_heads=key_value_heads, tied=tied), temperature)


@pytest.mark.parametrize("make", [qwen2_model, dynamic_rope_model, gemma_model])
def test_logprobs_of_other_architectures_equal_a_plain_forward_pass(make: Callable[[], PreTrainedModel]) -> None:
    check_logprobs(make(), 0.6)


def check_logprobs(model: PreTrainedModel, temperature: float) -> None:
    reference = copy.deepcopy(model)
    wanted = requests(10, temperature=temperature)
    wanted += [replace(request, constraint=None, max_completion_length=12) for request in requests(6, 1)]
    for request, generation in zip(wanted, write(TorchEngine(model, max_concurrent_decisions=7), wanted), strict=True):
        check_against_plain_forward(reference, request, generation)
        if request.constraint is not None:
            check_follows_sheet(request, generation)


def test_a_result_does_not_depend_on_the_rest_of_the_batch() -> None:
    wanted = requests(24)
    wanted += [replace(request, constraint=None, max_completion_length=9) for request in requests(6, 1)]
    together = write(TorchEngine(peaked_model()), wanted)
    crowded = write(TorchEngine(peaked_model(), max_concurrent_decisions=5, tokens_per_pass=50), wanted[::-1])[::-1]
    single_engine = TorchEngine(peaked_model())
    alone = [write(single_engine, [request])[0] for request in wanted]
    for others in (crowded, alone):
        for one, other in zip(together, others, strict=True):
            assert one.completion_ids.tolist() == other.completion_ids.tolist()
            np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-5)


@pytest.mark.parametrize("tokens_per_pass", [60, 1024])
def test_equal_prompts_are_completed_independently(tokens_per_pass: int) -> None:
    wanted = requests(8)
    shared = [replace(request, prompt_ids=wanted[index % 2].prompt_ids) for index, request in enumerate(requests(9, 2))]
    again = [replace(request, seed=request.seed + 1) for request in (*wanted[:3], *shared)]
    wanted = [*wanted, *shared, *again]
    model = peaked_model()
    reference = copy.deepcopy(model)
    engine = TorchEngine(model, max_concurrent_decisions=12, tokens_per_pass=tokens_per_pass)
    for request, generation in zip(wanted, write(engine, wanted), strict=True):
        check_against_plain_forward(reference, request, generation)
        check_follows_sheet(request, generation)


@pytest.mark.parametrize("make", [lambda: peaked_model(key_value_heads=1), peaked_model, qwen2_model, gemma_model])
def test_the_longest_rows_of_a_batch_are_attended_to_apart(
    make: Callable[[], PreTrainedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    apart: list[int] = []

    def make_longest(**fields: Any) -> ragged_pass.Longest:
        apart.append(len(fields["members"]))
        return longest(**fields)

    longest = ragged_pass.Longest
    monkeypatch.setattr(ragged_pass, "Longest", make_longest)
    model = make()
    reference = copy.deepcopy(model)
    wanted = [replace(each, prompt_ids=each.prompt_ids[:9]) for each in requests(20)]
    wanted[::9] = [replace(each, prompt_ids=tuple(range(5, 45)) + each.prompt_ids[:20]) for each in wanted[::9]]
    wanted[5:15] = [replace(each, constraint=None, max_completion_length=12) for each in wanted[5:15]]
    for request, generation in zip(wanted, write(TorchEngine(model), wanted), strict=True):
        check_against_plain_forward(reference, request, generation)
    assert max(apart) == 3


@given(st.lists(st.integers(1, 300), min_size=1, max_size=60))
def test_the_length_of_a_segment_is_the_cheapest_that_saves_enough(lengths: list[int]) -> None:
    rows, most = len(lengths), max(lengths)

    def cost(bound: int) -> int:
        return rows * bound + ragged_pass._COST_OF_COPIES * most * sum(length > bound for length in lengths)

    found = ragged_pass._bound(np.array(lengths))
    cheapest = min(map(cost, lengths))
    assert cost(found) == (cheapest if cheapest <= (1 - ragged_pass._LEAST_SAVED) * rows * most else rows * most)
    assert found in lengths


def test_seeds_determine_tokens_with_the_right_frequencies() -> None:
    engine = TorchEngine(peaked_model())
    sheet = SheetConstraint((SlotConstraint(((20, NEWLINE), (21, NEWLINE), (22, NEWLINE)), (None,) * 3),), END)
    wanted = [GenerationRequest((5, 6, 7), sheet, seed=seed, temperature=2.0) for seed in range(200)]
    first, again = write(engine, wanted), write(engine, wanted)
    tokens = [int(generation.completion_ids[0]) for generation in first]
    assert tokens == [int(generation.completion_ids[0]) for generation in again]
    probabilities = {token: float(np.exp(first[tokens.index(token)].logprobs[0])) for token in (20, 21, 22)}
    for token, probability in probabilities.items():
        assert abs(tokens.count(token) / 200 - probability) < 5 * (probability * (1 - probability) / 200) ** 0.5


def test_draws_of_one_decision_are_independent() -> None:
    coin = SlotConstraint(((20, NEWLINE), (21, NEWLINE)), (None, None))
    sheet = SheetConstraint((coin, coin, coin), END)
    wanted = [GenerationRequest((5, 6, 7), sheet, seed=seed, temperature=1000.0) for seed in range(400)]
    tosses = np.array([generation.completion_ids[:6:2] for generation in write(TorchEngine(peaked_model()), wanted)])
    for first, second in ((0, 1), (1, 2), (0, 2)):
        assert abs(np.mean(tosses[:, first] == tosses[:, second]) - 0.5) < 5 * 0.5 / 400**0.5


def test_joining_rows_and_cache_growth_keep_cached_values() -> None:
    model = peaked_model()
    reference = copy.deepcopy(model)
    engine = TorchEngine(model)
    rng = random.Random(0)
    wanted = [
        GenerationRequest((rng.randint(4, 40),) * rng.randint(40, 62), order_sheet(rng, 12), seed=seed)
        for seed in range(30)
    ]

    async def join_midway() -> list[Generation]:
        early = [asyncio.create_task(engine.generate(request)) for request in wanted[:3]]
        for _ in range(20):  # a few passes
            await asyncio.sleep(0)
        late = [asyncio.create_task(engine.generate(request)) for request in wanted[3:]]
        assert not any(task.done() for task in early)
        return await asyncio.wait_for(asyncio.gather(*early, *late), 60)

    for request, generation in zip(wanted, asyncio.run(join_midway()), strict=True):
        check_against_plain_forward(reference, request, generation)


def test_claims_are_respected() -> None:
    site = SlotConstraint(((20, NEWLINE), (21, NEWLINE), (22, NEWLINE), (30, NEWLINE)), (0, 1, 2, None))
    sheet = SheetConstraint((site, site, site), END)
    wanted = [GenerationRequest((5,), sheet, seed=seed, temperature=3.0) for seed in range(60)]
    for request, generation in zip(wanted, write(TorchEngine(peaked_model()), wanted), strict=True):
        check_follows_sheet(request, generation)
        built = [token for token in generation.completion_ids.tolist() if token in (20, 21, 22)]
        assert len(built) == len(set(built))


def test_a_sheet_without_choices_does_not_call_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the model was called")

    monkeypatch.setattr(PlainDecoder, "logits", refuse)
    engine = TorchEngine(peaked_model())
    only = SlotConstraint(((7, 10, NEWLINE),), (None,))
    generation = write(engine, [GenerationRequest((5, 6), SheetConstraint((only, only), END), seed=0)])[0]
    assert generation.completion_ids.tolist() == [7, 10, NEWLINE, 7, 10, NEWLINE, END]
    assert not generation.sampled_mask.any()
    assert not generation.logprobs.any()
    assert generation.admissible_ids.tolist() == []
    assert generation.admissible_offsets.tolist() == [0]
    assert generation.finished
    with pytest.raises(EngineError, match="the model was called"):
        write(engine, requests(1))


def test_free_text_ends_at_the_end_id_or_the_limit() -> None:
    engine = TorchEngine(peaked_model())
    wanted = [
        GenerationRequest((5,) * length, None, seed=seed, temperature=5.0, max_completion_length=60)
        for seed, length in enumerate([3] * 30 + [CONTEXT - 4] * 30)
    ]
    generations = write(engine, wanted)
    assert {generation.finished for generation in generations} == {True, False}
    for request, generation in zip(wanted, generations, strict=True):
        text = generation.completion_ids.tolist()
        limit = min(60, CONTEXT - len(request.prompt_ids))
        assert generation.finished == (text[-1] == END)
        assert END not in text[:-1]
        assert len(text) == limit or generation.finished
        assert generation.sampled_mask.all()
        assert len(generation.admissible_ids) == len(generation.admissible_offsets) == 0


def test_an_idle_engine_has_no_task_and_correct_counters() -> None:
    engine = TorchEngine(peaked_model())
    wanted = requests(5)

    async def write_and_look() -> list[Generation]:
        generations = await asyncio.gather(*map(engine.generate, wanted))
        for _ in range(20):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return generations

    generations = asyncio.run(write_and_look())
    stats = engine.stats()
    assert stats["decisions"] == 5
    assert stats["prompt_tokens"] == sum(len(request.prompt_ids) for request in wanted)
    assert stats["completion_tokens"] == sum(len(generation.completion_ids) for generation in generations)
    assert stats["sampled_tokens"] == sum(int(generation.sampled_mask.sum()) for generation in generations)
    assert stats["queue"] == 0
    assert stats["busy_seconds"] > 0
