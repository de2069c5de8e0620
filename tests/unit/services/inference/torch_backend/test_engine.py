from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

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

from grpo_core.models.pretrained import make_small_model, weights_payload
from grpo_core.settings import PolicySettings
from services.inference.engine import LEARNER, EngineError, Generation, GenerationRequest
from services.inference.token_masks import SheetConstraint, SheetState, SlotConstraint
from services.inference.torch_backend.engine import TorchEngine
from services.inference.torch_backend.plain_decoder import PlainDecoder

END, NEWLINE, VOCABULARY, CONTEXT = 2, 3, 48, 128


def peaked_model(architecture: str = "qwen3", seed: int = 0, *, key_value_heads: int = 2, tied: bool = False):
    """A tiny model with peaked distributions: with the uniform ones of untrained models wrong weights go unnoticed."""
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
        if request.constraint is None:
            admissible = np.arange(VOCABULARY)
        else:
            first, end = generation.admissible_offsets[number : number + 2]
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
    wanted = requests(20, temperature=temperature)
    wanted += [replace(request, constraint=None, max_completion_length=12) for request in requests(6, 1)]
    for request, generation in zip(wanted, write(TorchEngine(model, max_concurrent_decisions=7), wanted), strict=True):
        check_against_plain_forward(reference, request, generation)
        if request.constraint is not None:
            check_follows_sheet(request, generation)


@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
def test_tokens_and_logprobs_after_each_update_are_the_new_models(architecture: str) -> None:
    engine = TorchEngine(peaked_model(architecture), max_concurrent_decisions=8)
    wanted = requests(12, temperature=0.0)
    seen = {tuple(generation.completion_ids) for generation in write(engine, wanted)}
    for version in (1, 2, 3):
        published = peaked_model(architecture, seed=version)
        asyncio.run(engine.update_weights(memoryview(weights_payload(published)), version))
        generations = write(engine, wanted)
        for request, generation in zip(wanted, generations, strict=True):
            assert generation.policy_version == version
            check_against_plain_forward(published, request, generation)
        tokens = {tuple(generation.completion_ids) for generation in generations}
        assert tokens - seen, "the new weights write what the old ones wrote: the test would not detect a failed swap"
        seen |= tokens


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


def test_several_policies_run_at_once_under_their_own_weights() -> None:
    models = {name: peaked_model(seed=seed) for seed, name in enumerate((LEARNER, "policy/v1", "policy/v2"))}
    engine = TorchEngine(copy.deepcopy(models[LEARNER]), max_concurrent_decisions=6)
    for version, name in enumerate(models):
        if name != LEARNER:
            asyncio.run(engine.update_weights(weights_payload(models[name]), version, name))
    names = list(models)
    wanted = [replace(request, policy=names[i % 3]) for i, request in enumerate(requests(30))]
    for request, generation in zip(wanted, write(engine, wanted), strict=True):
        assert generation.policy_version == names.index(request.policy)
        check_against_plain_forward(models[request.policy], request, generation)


def test_decisions_in_flight_finish_under_the_weights_they_began_with() -> None:
    old, new = peaked_model(seed=0), peaked_model(seed=1)
    engine = TorchEngine(copy.deepcopy(old), max_concurrent_decisions=4)
    wanted = requests(12)

    async def swap_midway() -> list[Generation]:
        tasks = [asyncio.create_task(engine.generate(request)) for request in wanted]
        while not any(task.done() for task in tasks):
            await asyncio.sleep(0)
        await engine.update_weights(weights_payload(new), 1)
        return await asyncio.wait_for(asyncio.gather(*tasks), 60)

    generations = asyncio.run(swap_midway())
    versions = [generation.policy_version for generation in generations]
    assert set(versions) == {0, 1}
    for request, generation in zip(wanted, generations, strict=True):
        check_against_plain_forward((old, new)[generation.policy_version], request, generation)


def test_a_removed_policy_finishes_its_decisions_and_then_is_unknown() -> None:
    engine = TorchEngine(peaked_model(), max_concurrent_decisions=2)
    asyncio.run(engine.update_weights(weights_payload(peaked_model(seed=1)), 1, "policy/v1"))
    wanted = requests(6, policy="policy/v1")

    async def remove_midway() -> list[Generation | BaseException]:
        tasks = [asyncio.create_task(engine.generate(request)) for request in wanted]
        while not any(task.done() for task in tasks):
            await asyncio.sleep(0)
        engine.remove_policy("policy/v1")
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)

    outcomes = asyncio.run(remove_midway())
    assert any(isinstance(outcome, Generation) for outcome in outcomes)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert failures
    assert all(isinstance(failure, EngineError) and "removed" in str(failure) for failure in failures)
    with pytest.raises(EngineError, match="unknown policy 'policy/v1'; this engine has learner"):
        write(engine, wanted[:1])
    engine.remove_policy("policy/v1")
    assert write(engine, requests(1))[0].finished


def test_weights_of_another_model_are_refused_and_the_old_ones_stay() -> None:
    model = peaked_model()
    reference = copy.deepcopy(model)
    engine = TorchEngine(model)
    other = make_small_model(PolicySettings(layers=1), VOCABULARY, eos_id=END, bos_id=1, pad_id=0, seed=0)
    for payload in (b"not safetensors", weights_payload(other)):
        with pytest.raises(EngineError, match="version 1 were refused"):
            asyncio.run(engine.update_weights(payload, 1))
    wanted = requests(3)
    for request, generation in zip(wanted, write(engine, wanted), strict=True):
        assert generation.policy_version == 0
        check_against_plain_forward(reference, request, generation)


def test_impossible_requests_are_refused_before_decoding() -> None:
    engine = TorchEngine(peaked_model())
    good = requests(1)[0]
    assert good.constraint is not None
    for request, complaint in (
        (replace(good, prompt_ids=()), "empty"),
        (replace(good, prompt_ids=(5, VOCABULARY)), "outside the model's 48 tokens"),
        (replace(good, prompt_ids=(-1,)), "outside"),
        (replace(good, prompt_ids=(5,) * CONTEXT), "does not fit: prompt 128"),
        (replace(good, prompt_ids=(5,) * CONTEXT, constraint=None), "leaves no room in a context of 128"),
        (replace(good, max_completion_length=good.constraint.longest - 1), "does not fit"),
        (replace(good, constraint=SheetConstraint(good.constraint.slots, VOCABULARY)), "outside"),
        (replace(good, constraint=SheetConstraint((SlotConstraint(((5,), (5, 6)), (None, None)),), END)), "prefix"),
        (replace(good, temperature=-0.1), "temperature"),
        (replace(good, temperature=float("nan")), "temperature"),
        (replace(good, policy="nobody"), "unknown policy 'nobody'"),
    ):
        with pytest.raises(EngineError, match=complaint):
            write(engine, [request])
    exact = replace(good, max_completion_length=good.constraint.longest)
    assert write(engine, [exact])[0].finished


def test_a_sheet_made_impossible_by_claims_fails_alone() -> None:
    engine = TorchEngine(peaked_model())
    slot = SlotConstraint(((20, NEWLINE), (21, NEWLINE)), (0, 0))
    bad = GenerationRequest((5, 6), SheetConstraint((slot, slot), END), seed=0)
    wanted = requests(6)
    expected = write(engine, wanted)

    async def write_with_bad() -> list[Generation | BaseException]:
        tasks = asyncio.gather(*map(engine.generate, [*wanted, bad]), return_exceptions=True)
        return await asyncio.wait_for(tasks, 60)

    *others, outcome = asyncio.run(write_with_bad())
    assert isinstance(outcome, EngineError)
    assert "no alternative" in str(outcome)
    for one, other in zip(others, expected, strict=True):
        assert isinstance(one, Generation)
        assert one.completion_ids.tolist() == other.completion_ids.tolist()


def test_a_failed_pass_fails_all_waiting_decisions_and_the_engine_goes_on() -> None:
    engine = TorchEngine(peaked_model(), max_concurrent_decisions=2)
    broken = peaked_model(seed=1)
    with torch.no_grad():
        broken.lm_head.weight.fill_(float("nan"))
    asyncio.run(engine.update_weights(weights_payload(broken), 1))

    async def all_outcomes() -> list[Generation | BaseException]:
        tasks = asyncio.gather(*map(engine.generate, requests(5)), return_exceptions=True)
        return await asyncio.wait_for(tasks, 60)

    for outcome in asyncio.run(all_outcomes()):
        assert isinstance(outcome, EngineError)
        assert "not finite" in str(outcome)
    asyncio.run(engine.update_weights(weights_payload(peaked_model(seed=2)), 2))
    assert all(generation.finished for generation in write(engine, requests(5)))


def test_cancelled_decisions_do_not_affect_others() -> None:
    engine = TorchEngine(peaked_model(), max_concurrent_decisions=2)
    wanted = requests(8)
    expected = write(engine, wanted)

    async def cancel_some() -> list[Generation]:
        tasks = [asyncio.create_task(engine.generate(request)) for request in wanted]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        return await asyncio.wait_for(asyncio.gather(*tasks[1::2]), 60)

    for one, other in zip(asyncio.run(cancel_some()), expected[1::2], strict=True):
        assert one.completion_ids.tolist() == other.completion_ids.tolist()


def test_close_fails_waiting_and_later_decisions() -> None:
    engine = TorchEngine(peaked_model(), max_concurrent_decisions=2)

    async def close_midway() -> list[Generation | BaseException]:
        tasks = [asyncio.create_task(engine.generate(request)) for request in requests(8)]
        while not any(task.done() for task in tasks):
            await asyncio.sleep(0)
        await engine.close()
        await engine.close()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)

    failures = [outcome for outcome in asyncio.run(close_midway()) if isinstance(outcome, BaseException)]
    assert failures
    assert all(isinstance(failure, EngineError) and "closed" in str(failure) for failure in failures)
    with pytest.raises(EngineError, match="closed"):
        write(engine, requests(1))
    with pytest.raises(EngineError, match="closed"):
        asyncio.run(engine.update_weights(weights_payload(peaked_model()), 1))


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
