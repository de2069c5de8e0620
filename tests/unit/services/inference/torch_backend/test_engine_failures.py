"""Requests that the torch engine refuses, and decisions that fail, are cancelled or are sent to a closed engine."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import torch

from grpo_core.models.pretrained import weights_payload
from services.inference.engine import EngineError, Generation, GenerationRequest
from services.inference.token_masks import SheetConstraint, SlotConstraint
from services.inference.torch_backend.engine import TorchEngine
from tests.unit.services.inference.torch_backend.cases import (
    CONTEXT,
    END,
    NEWLINE,
    VOCABULARY,
    peaked_model,
    requests,
    write,
)


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


def test_a_failed_pass_fails_all_waiting_decisions_and_the_engine_continues() -> None:
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
