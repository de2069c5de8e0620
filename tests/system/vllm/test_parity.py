"""Parity of vLLM and the torch engine: the same sheets and log-probabilities, before and after every swap."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from cluster.bench.inference.policies import real_requests
from grpo_core.models.lora import adapter_payload, add_adapters
from grpo_core.models.pretrained import plain_model, weights_payload
from grpo_core.models.weight_probe import make_probe
from grpo_core.settings import PolicySettings
from services.inference.engine import EngineError, Generation, GenerationRequest
from services.inference.torch_backend.engine import TorchEngine
from services.inference.vllm_backend.engine import VLLMEngine
from tests.system.support.vllm_models import peaked_model, perturbed, vllm_engine, write_all

pytest.importorskip("vllm", reason="vLLM is not installed: `make vllm` brings its CPU build")
pytestmark = pytest.mark.system

RANK = 8


@dataclass(frozen=True)
class Pair:
    """Both engines over one model."""

    model: torch.nn.Module
    ours: TorchEngine
    theirs: VLLMEngine
    runner: asyncio.Runner
    requests: Sequence[GenerationRequest]

    def write(self, requests: Sequence[GenerationRequest]) -> tuple[list[Generation], list[Generation]]:
        ours = self.runner.run(write_all(self.ours, requests))
        return ours, self.runner.run(write_all(self.theirs, requests))

    def update(self, payload: bytes, version: int, **options: object) -> None:
        self.runner.run(
            self.ours.update_weights(payload, version, **{k: v for k, v in options.items() if k != "probe"})
        )
        self.runner.run(self.theirs.update_weights(payload, version, **options))

    def check_parity(self, version: int, policy: str = "learner") -> list[list[int]]:
        """Check that greedy sheets and their log-probabilities are the same; return the sheets."""
        requests = [replace(request, temperature=0.0, policy=policy) for request in self.requests]
        ours, theirs = self.write(requests)
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.completion_ids.tolist() == other.completion_ids.tolist()
            assert np.array_equal(mine.sampled_mask, other.sampled_mask)
            assert np.array_equal(mine.admissible_ids, other.admissible_ids)
            assert np.array_equal(mine.admissible_offsets, other.admissible_offsets)
            assert np.abs(mine.logprobs - other.logprobs).max() < 1e-4
            assert (mine.policy_version, other.policy_version) == (version, version)
        return [mine.completion_ids.tolist() for mine in ours]


@pytest.fixture(scope="module", params=[("qwen3", False), ("qwen3", True), ("llama", False), ("llama", True)], ids=str)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    architecture, tied = request.param
    model = peaked_model(architecture, tied=tied)
    requests = real_requests(24)
    with vllm_engine(model, tmp_path_factory.mktemp("model"), max_lora_rank=RANK) as (theirs, runner):
        ours = TorchEngine(copy.deepcopy(model), max_concurrent_decisions=64)
        yield Pair(model, ours, theirs, runner, requests)


def test_vllm_and_torch_agree_after_full_updates_and_adapters(pair: Pair) -> None:
    first = pair.check_parity(0)
    for version in (1, 2, 3):
        model = perturbed(copy.deepcopy(pair.model), version)
        probe = make_probe(model, [request.prompt_ids for request in pair.requests[:3]])
        pair.update(weights_payload(model), version, probe=probe)
        assert pair.check_parity(version) != first
    # Adapters apply to the weights the engine began with, not to the learner's newest: both take turns.
    wrapped = add_adapters(copy.deepcopy(pair.model), PolicySettings(use_peft=True, lora_r=RANK), seed=0)
    for version in (4, 5, 6):
        with torch.no_grad():
            for name, weight in wrapped.named_parameters():
                if "lora_" in name:
                    weight.normal_(std=0.1)
        pair.update(adapter_payload(wrapped), version, policy="opponent")
        assert pair.check_parity(version, "opponent") != first
    pair.check_parity(3)
    pair.update(weights_payload(plain_model(pair.model)), 7)
    assert pair.check_parity(7) == first


def test_sampled_logprobs_equal_a_plain_forward_pass(pair: Pair) -> None:
    """Under the mask and at a temperature; the same seeds give the same tokens."""
    requests = [replace(request, temperature=0.7, seed=number) for number, request in enumerate(pair.requests)]
    _, written = pair.write(requests)
    _, again = pair.write(requests)
    model = pair.model
    for request, one, other in zip(requests, written, again, strict=True):
        assert one.completion_ids.tolist() == other.completion_ids.tolist()
        with torch.inference_mode():
            ids = torch.tensor([*request.prompt_ids, *one.completion_ids.tolist()])
            logits = model(ids[None]).logits[0].double() / 0.7
        for number, place in enumerate(np.flatnonzero(one.sampled_mask)):
            admissible = one.admissible_ids[one.admissible_offsets[number] : one.admissible_offsets[number + 1]]
            at = torch.log_softmax(logits[len(request.prompt_ids) + place - 1][torch.from_numpy(admissible).long()], -1)
            chosen = int(np.flatnonzero(admissible == one.completion_ids[place])[0])
            assert one.logprobs[place] == pytest.approx(float(at[chosen]), abs=1e-4)
        assert not one.logprobs[~one.sampled_mask].any()


def test_vllm_and_torch_agree_on_free_text(pair: Pair) -> None:
    requests = [
        replace(request, constraint=None, temperature=0.0, max_completion_length=24) for request in pair.requests
    ]
    ours, theirs = pair.write(requests)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.completion_ids.tolist() == other.completion_ids.tolist()
        assert np.abs(mine.logprobs - other.logprobs).max() < 1e-4
        assert mine.finished == other.finished


def test_wrong_weights_are_refused_and_the_old_ones_stay(pair: Pair) -> None:
    before = pair.check_parity(7)
    foreign = weights_payload(
        peaked_model(seed=3) if pair.model.config.model_type == "llama" else peaked_model("llama")
    )
    other = perturbed(copy.deepcopy(pair.model), 9)
    wrong_probe = make_probe(pair.model, [pair.requests[0].prompt_ids])
    for payload, probe, message in (
        (b"nothing", None, "safetensors"),
        (foreign, None, "another model"),
        (weights_payload(other), wrong_probe, "does not compute what the learner does"),
    ):
        with pytest.raises(EngineError, match=message):
            pair.runner.run(pair.theirs.update_weights(payload, 8, probe=probe))
    assert pair.check_parity(7) == before
