"""Several policies in one torch engine, and what happens when their weights are updated, removed or refused."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace

import pytest

from grpo_core.models.pretrained import make_small_model, weights_payload
from grpo_core.settings import PolicySettings
from services.inference.engine import LEARNER, EngineError, Generation
from services.inference.torch_backend.engine import TorchEngine
from tests.unit.services.inference.torch_backend.cases import (
    END,
    VOCABULARY,
    check_against_plain_forward,
    peaked_model,
    requests,
    write,
)


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
