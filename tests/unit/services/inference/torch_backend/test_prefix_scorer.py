"""Scores of texts that share beginnings, against a plain forward pass over each text."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from grpo_core.models.pretrained import weights_payload
from services.inference.engine import LEARNER, EngineError
from services.inference.paired_engine import PairedEngine
from services.inference.scoring import logprobs_among
from services.inference.torch_backend.engine import TorchEngine
from tests.unit.services.inference.torch_backend.cases import (
    CONTEXT,
    VOCABULARY,
    dynamic_rope_model,
    gemma_model,
    peaked_model,
    qwen2_model,
    requests,
)


def expected(model: PreTrainedModel, text: tuple[int, ...], ids: np.ndarray, temperature: float) -> np.ndarray:
    with torch.inference_mode():
        logits = model(torch.tensor([text])).logits[0, -1].double()
    return torch.log_softmax(logits[torch.from_numpy(ids).long()] / temperature, 0).numpy()


@pytest.mark.parametrize("make", [peaked_model, qwen2_model, dynamic_rope_model, gemma_model])
@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_scores_equal_a_plain_forward_pass(make: Callable[[], PreTrainedModel], temperature: float) -> None:
    model = make()
    reference = copy.deepcopy(model)
    scorer = TorchEngine(model).scorer(LEARNER)
    rng = random.Random(5)
    known: list[tuple[int, ...]] = [tuple(rng.randrange(4, VOCABULARY) for _ in range(30))]

    def text() -> tuple[int, ...]:
        begun = rng.choice(known)
        kept = begun[: rng.randint(1, len(begun))]
        made = (*kept, *(rng.randrange(4, VOCABULARY) for _ in range(rng.randint(0, 9))))[:CONTEXT]
        known.append(made)
        return made

    async def check() -> None:
        for count in (1, 5, 1, 33, 70, 2, 3, 1, 40):
            texts = [text() for _ in range(count)]
            ids = [np.array(sorted(rng.sample(range(VOCABULARY), rng.randint(1, 9))), np.int32) for _ in range(count)]
            found = await scorer.logprobs(texts, ids, temperature)
            for each, among, scores in zip(texts, ids, found, strict=True):
                np.testing.assert_allclose(scores, expected(reference, each, among, temperature), atol=2e-4)

    asyncio.run(check())


def test_equal_and_one_token_texts_are_scored_too() -> None:
    model = peaked_model()
    reference = copy.deepcopy(model)
    texts = [(7,), (7, 8, 9), (7, 8, 9), (7,), (7, 8)]
    ids = [np.arange(VOCABULARY, dtype=np.int32)] * len(texts)
    for start in range(len(texts)):
        found = asyncio.run(TorchEngine(copy.deepcopy(model)).scorer(LEARNER).logprobs(texts[start:], ids[start:], 0.0))
        for text, scores in zip(texts[start:], found, strict=True):
            np.testing.assert_allclose(scores, expected(reference, text, ids[0], 1.0), atol=2e-4)


def test_a_scorer_keeps_its_weights_and_leaves_the_engine_alone() -> None:
    engine = TorchEngine(peaked_model())
    before = engine.scorer(LEARNER)
    texts, ids = [(7, 8, 9)], [np.arange(VOCABULARY, dtype=np.int32)]

    async def check() -> None:
        first = await before.logprobs(texts, ids, 1.0)
        request = requests(1)[0]
        generation = await engine.generate(request)
        await engine.update_weights(weights_payload(peaked_model(seed=1)), 1)
        again = await TorchEngine(peaked_model()).generate(request)
        assert generation.completion_ids.tolist() == again.completion_ids.tolist()
        np.testing.assert_allclose(await before.logprobs([(7, 8, 9)], ids, 1.0), first, atol=1e-5)
        assert np.abs((await engine.scorer(LEARNER).logprobs(texts, ids, 1.0))[0] - first[0]).max() > 0.01

    asyncio.run(check())


def test_texts_that_cannot_be_scored_are_refused() -> None:
    engine = TorchEngine(peaked_model())
    ids = [np.arange(3, dtype=np.int32)] * 2
    with pytest.raises(EngineError, match="unknown policy 'other'; this engine has learner"):
        engine.scorer("other")
    scorer = PairedEngine(engine, engine).scorer(LEARNER)
    with pytest.raises(EngineError, match="a text of 129 tokens does not fit the context of 128"):
        asyncio.run(scorer.logprobs([(5,) * 129], ids, 1.0))
    with pytest.raises(ValueError, match="same token"):
        asyncio.run(scorer.logprobs([(5,), (6,)], ids, 1.0))
    with pytest.raises(EngineError, match="does not tell the probabilities"):
        PairedEngine(object(), engine).scorer(LEARNER)  # type: ignore[arg-type]
    with pytest.raises(FloatingPointError, match="not finite"):
        logprobs_among(np.array([np.nan, 1.0], np.float32), np.array([0, 1], np.int32), 1.0)
    asyncio.run(engine.close())
    with pytest.raises(EngineError, match="closed"):
        engine.scorer(LEARNER)
