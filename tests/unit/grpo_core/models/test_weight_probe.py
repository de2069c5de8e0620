from __future__ import annotations

import asyncio
import copy
from dataclasses import replace

import pytest
import torch

from grpo_core.models.pretrained import weights_payload
from grpo_core.models.weight_probe import compare, make_probe
from grpo_core.types import Probe
from services.inference.engine import EngineError
from services.inference.parity import probe_requests
from services.inference.torch_backend.engine import TorchEngine
from tests.unit.services.inference.torch_backend.cases import peaked_model, perturbed

PROMPTS = ((1, 9, 11, 13), (1, 20))


def test_a_probe_is_the_greedy_continuation_of_a_plain_forward_pass() -> None:
    model = peaked_model()
    probe = make_probe(model, PROMPTS, length=3)
    for prompt, tokens, logprobs, leads in zip(PROMPTS, probe.tokens, probe.logprobs, probe.leads, strict=True):
        ids = torch.tensor([[*prompt, *tokens]])
        with torch.inference_mode():
            table = torch.log_softmax(model(ids).logits[0].double(), -1)[len(prompt) - 1 : -1]
        assert table.argmax(-1).tolist() == list(tokens)
        highest = table.topk(2).values
        assert torch.allclose(highest[:, 0], torch.tensor(logprobs).double(), atol=1e-5)
        assert torch.allclose(highest[:, 0] - highest[:, 1], torch.tensor(leads).double(), atol=1e-5)


def test_a_probe_tells_ties_and_rounding_from_disagreement() -> None:
    probe = Probe(((1,),), ((5, 6, 7),), ((-1.0, -2.0, -3.0),), ((0.5, 0.0001, 0.5),))
    for tokens, logprobs, expected in (
        ([5, 6, 7], [-1.0, -2.0, -3.0], None),
        ([5, 6, 7], [-1.0, -2.0, -3.02], "log-probability"),
        ([5, 9, 1], [-1.0, -2.0, -9.0], None),  # a tie was broken differently: the tokens after it cannot be compared
        ([8, 6, 7], [-1.0, -2.0, -3.0], "token 8 instead of 5"),
        ([5, 6], [-1.0, -2.0], None),  # ended by its end id
        ([5, 6, 7], [float("nan"), -2.0, -3.0], "log-probability"),
        ([], [], "no answer"),
    ):
        found = compare(probe, 0, tokens, logprobs, tolerance=0.01)
        if expected is None:
            assert isinstance(found, list)
            assert max(found) <= 0.01
        else:
            assert isinstance(found, str)
            assert expected in found


def test_an_engine_refuses_weights_that_disagree_with_the_learners_probe() -> None:
    model = peaked_model()
    newer, newest = perturbed(copy.deepcopy(model), 1), perturbed(copy.deepcopy(model), 2)

    async def play() -> None:
        engine = TorchEngine(copy.deepcopy(model))
        await engine.update_weights(weights_payload(newer), 1, probe=make_probe(newer, PROMPTS))
        (request, _) = probe_requests(make_probe(newer, PROMPTS), "learner")
        before = await engine.generate(request)
        assert before.policy_version == 1
        with pytest.raises(EngineError, match=r"version 2 were refused.*old weights stay in use"):
            await engine.update_weights(weights_payload(newest), 2, probe=make_probe(newer, PROMPTS))
        after = await engine.generate(request)
        assert (after.policy_version, after.completion_ids.tolist()) == (1, before.completion_ids.tolist())
        # A new name whose weights are refused is not added.
        with pytest.raises(EngineError, match="'frozen' version 2 were refused"):
            await engine.update_weights(weights_payload(newest), 2, "frozen", probe=make_probe(newer, PROMPTS))
        with pytest.raises(EngineError, match="unknown policy"):
            await engine.generate(replace(request, policy="frozen"))

    asyncio.run(play())


def test_a_sleeping_engine_finishes_started_decisions_and_holds_new_ones() -> None:
    async def play() -> None:
        engine = TorchEngine(peaked_model())
        (request, other) = probe_requests(make_probe(peaked_model(), PROMPTS), "learner")
        early = asyncio.create_task(engine.generate(request))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await engine.sleep()
        late = asyncio.create_task(engine.generate(other))
        await asyncio.sleep(0.05)
        assert not late.done()
        await engine.wake()
        await asyncio.wait_for(late, 10)
        await asyncio.wait_for(early, 10)

    asyncio.run(play())
