"""Weight swaps in vLLM: turns, waiting, kept decisions, sleep and the removal of adapters."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from transformers import PreTrainedModel

from cluster.bench.inference.policies import real_requests
from grpo_core.models.lora import adapter_payload, add_adapters
from grpo_core.models.pretrained import save_model, weights_payload
from grpo_core.models.weight_probe import make_probe
from grpo_core.settings import PolicySettings
from services.environments.diplomacy.bots.compiled import playouts  # noqa: F401  # vLLM has to start beside its LLVM
from services.inference.engine import LEARNER, EngineError, Generation, GenerationRequest
from services.inference.torch_backend.engine import TorchEngine
from services.inference.vllm_backend.engine import VLLMEngine
from services.inference.vllm_backend.startup import CoreOptions, start_core
from services.inference.vllm_backend.worker_extension import WeightsExtension
from services.settings import InferenceSettings
from tests.system.support.vllm_models import peaked_model, perturbed, vllm_engine, word_tokenizer, write_all

pytest.importorskip("vllm", reason="vLLM is not installed: `make vllm` brings its CPU build")
pytestmark = pytest.mark.system

Served = tuple[VLLMEngine, asyncio.Runner]
IN_FLIGHT = 24


@pytest.fixture(scope="module")
def requests() -> Sequence[GenerationRequest]:
    return [replace(request, temperature=0.0) for request in real_requests(IN_FLIGHT)]


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return peaked_model()


@pytest.fixture(scope="module")
def served(model: PreTrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with vllm_engine(model, tmp_path_factory.mktemp("model"), max_lora_rank=8) as pair:
        yield pair


def expected(model: PreTrainedModel, requests: Sequence[GenerationRequest]) -> list[list[int]]:
    """The sheets of the torch engine with these weights."""
    engine = TorchEngine(copy.deepcopy(model), max_concurrent_decisions=64)
    return sheets(asyncio.run(write_all(engine, [replace(request, policy=LEARNER) for request in requests])))


def sheets(generations: Sequence[Generation]) -> list[list[int]]:
    return [generation.completion_ids.tolist() for generation in generations]


def test_policies_with_full_weights_take_turns(
    served: Served, model: PreTrainedModel, requests: Sequence[GenerationRequest]
) -> None:
    """All are requested at once, in mixed order; each is written under its own policy's weights."""
    engine, runner = served
    models = {LEARNER: model, "v10": perturbed(copy.deepcopy(model), 10), "v20": perturbed(copy.deepcopy(model), 20)}
    runner.run(engine.update_weights(weights_payload(model), 3))
    for name in ("v10", "v20"):
        runner.run(engine.update_weights(weights_payload(models[name]), int(name[1:]), policy=name))
    mixed = [replace(request, policy=list(models)[number % 3]) for number, request in enumerate(requests)]
    written = runner.run(write_all(engine, mixed))
    for name, version in ((LEARNER, 3), ("v10", 10), ("v20", 20)):
        mine = [number for number, request in enumerate(mixed) if request.policy == name]
        assert sheets([written[number] for number in mine]) == expected(models[name], [requests[n] for n in mine])
        assert {written[number].policy_version for number in mine} == {version}
    assert engine.stats()["weight_switches"] <= 6  # turns, not a swap a decision
    for name in ("v10", "v20"):
        engine.remove_policy(name)
    with pytest.raises(EngineError, match="unknown policy 'v10'"):
        runner.run(engine.generate(mixed[1]))


def test_a_swap_waits_for_decisions_in_flight_and_holds_later_ones(
    served: Served, model: PreTrainedModel, requests: Sequence[GenerationRequest]
) -> None:
    engine, runner = served
    newer = perturbed(copy.deepcopy(model), 30)
    runner.run(engine.update_weights(weights_payload(model), 3))

    async def swap_in_the_middle() -> list[list[Generation]]:
        early = asyncio.create_task(write_all(engine, requests))
        await asyncio.sleep(0.02)  # they are being written
        swap = asyncio.create_task(engine.update_weights(weights_payload(newer), 4))
        meanwhile = []
        while not swap.done():  # some arrive before the swap begins, some while it waits
            meanwhile.append(asyncio.create_task(engine.generate(requests[len(meanwhile) % IN_FLIGHT])))
            await asyncio.sleep(0.002)
        await swap
        late = await write_all(engine, requests)
        return [await early, list(await asyncio.gather(*meanwhile)), late]

    early, meanwhile, late = runner.run(swap_in_the_middle())
    of = {3: expected(model, requests), 4: expected(newer, requests)}
    assert {generation.policy_version for generation in early} == {3}
    assert {generation.policy_version for generation in late} == {4}
    assert sheets(early) == of[3]
    assert sheets(late) == of[4]
    for number, generation in enumerate(meanwhile):
        assert generation.completion_ids.tolist() == of[generation.policy_version][number % IN_FLIGHT]
    assert meanwhile[-1].policy_version == 4


def test_sleep_finishes_decisions_and_holds_later_ones_until_wake(
    served: Served, model: PreTrainedModel, requests: Sequence[GenerationRequest]
) -> None:
    engine, runner = served
    runner.run(engine.update_weights(weights_payload(model), 5))

    async def nap() -> list[Generation]:
        early = asyncio.create_task(write_all(engine, requests))
        await asyncio.sleep(0.02)
        await engine.sleep()
        await asyncio.wait_for(early, 1.0)  # the decision in flight was finished
        late = asyncio.create_task(write_all(engine, requests))
        await asyncio.sleep(0.2)
        assert not late.done()
        with pytest.raises(EngineError, match="sleeps"):
            await engine.update_weights(weights_payload(model), 6)
        await engine.wake()
        return await late

    assert sheets(runner.run(nap())) == expected(model, requests)


def test_an_adapter_stays_loaded_while_a_decision_uses_it(
    served: Served, model: PreTrainedModel, requests: Sequence[GenerationRequest]
) -> None:
    engine, runner = served
    wrapped = add_adapters(copy.deepcopy(model), PolicySettings(use_peft=True, lora_r=8), seed=0)

    def another(seed: int) -> bytes:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, weight in wrapped.named_parameters():
                if "lora_" in name:
                    weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
        return adapter_payload(wrapped)

    async def replace_in_the_middle() -> tuple[list[Generation], list[Generation]]:
        await engine.update_weights(another(1), 1, policy="adapted")
        asked = [replace(request, policy="adapted") for request in requests]
        alone = await write_all(engine, asked)
        early = asyncio.create_task(write_all(engine, asked))
        await asyncio.sleep(0.02)
        await engine.update_weights(another(2), 2, policy="adapted")
        engine.remove_policy("adapted")
        return alone, await early

    alone, early = runner.run(replace_in_the_middle())
    assert sheets(early) == sheets(alone)
    assert {generation.policy_version for generation in early} == {1}


def test_the_base_is_unchanged_when_all_adapter_slots_are_in_use(
    served: Served, model: PreTrainedModel, requests: Sequence[GenerationRequest]
) -> None:
    engine, runner = served
    runner.run(engine.update_weights(weights_payload(model), 6))
    wrapped = add_adapters(copy.deepcopy(model), PolicySettings(use_peft=True, lora_r=8), seed=0)
    torch_engine = TorchEngine(copy.deepcopy(model), max_concurrent_decisions=64)
    names = [f"slot{number}" for number in range(InferenceSettings().max_loras + 1)]
    for name in names:
        with torch.no_grad():
            for parameter, weight in wrapped.named_parameters():
                if "lora_" in parameter:
                    weight.normal_(std=0.1)
        for each in (engine, torch_engine):
            runner.run(each.update_weights(adapter_payload(wrapped), 1, policy=name))
    mixed = [replace(request, policy=name) for name in (LEARNER, *names) for request in requests]
    assert sheets(runner.run(write_all(engine, mixed))) == sheets(runner.run(write_all(torch_engine, mixed)))

    async def remove_all() -> None:
        for name in names:
            engine.remove_policy(name)

    runner.run(remove_all())


def test_an_opponents_adapter_update_waits_until_the_engine_wakes(
    served: Served, model: PreTrainedModel, requests: Sequence[GenerationRequest]
) -> None:
    engine, runner = served
    payload = adapter_payload(add_adapters(copy.deepcopy(model), PolicySettings(use_peft=True, lora_r=8), seed=0))

    async def nap() -> Generation:
        await engine.sleep()
        update = asyncio.create_task(engine.update_weights(payload, 1, policy="opponent"))
        await asyncio.sleep(0.1)
        assert not update.done()
        await engine.wake()
        await asyncio.wait_for(update, 10)
        return await engine.generate(replace(requests[0], policy="opponent"))

    assert runner.run(nap()).policy_version == 1


def test_kept_decisions_continue_under_new_weights(
    model: PreTrainedModel, requests: Sequence[GenerationRequest], tmp_path: Path
) -> None:
    newer = perturbed(copy.deepcopy(model), 40)
    payload, probe = weights_payload(newer), make_probe(newer, [requests[0].prompt_ids])
    with vllm_engine(model, tmp_path, InferenceSettings(kv_cache_mib=64, swap="keep")) as (engine, runner):

        async def swap_in_the_middle() -> list[Generation]:
            early = asyncio.create_task(write_all(engine, requests))
            await asyncio.sleep(0.02)
            await engine.update_weights(payload, 1, probe=probe)
            assert not early.done()  # the swap did not wait for them
            return await early

        early = runner.run(swap_in_the_middle())
        assert {generation.policy_version for generation in early} == {0}
        old = expected(model, requests)
        assert sheets(early) != old  # the ends of sheets in flight are written by the new weights
        assert sheets(runner.run(write_all(engine, requests))) == expected(newer, requests)
        other = perturbed(copy.deepcopy(model), 41)
        runner.run(engine.update_weights(weights_payload(other), 9, policy="frozen"))
        assert runner.run(swap_under_an_opponent(engine, requests, payload)) == expected(other, requests)
        # The last token of each was sampled under the new weights, with keys and values made by them.
        for request, generation, before in zip(requests, early, old, strict=True):
            if generation.completion_ids.tolist() == before:
                continue  # written before the new weights arrived
            place = int(np.flatnonzero(generation.sampled_mask)[-1])
            ids = torch.tensor([*request.prompt_ids, *generation.completion_ids.tolist()])
            with torch.inference_mode():
                logits = newer(ids[None]).logits[0].double()[len(request.prompt_ids) + place - 1]
            admissible = torch.from_numpy(generation.admissible_ids[generation.admissible_offsets[-2] :]).long()
            chosen = int((admissible == int(generation.completion_ids[place])).nonzero()[0])
            logprob = float(torch.log_softmax(logits[admissible], -1)[chosen])
            assert generation.logprobs[place] == pytest.approx(logprob, abs=1e-4)


def test_a_failed_weight_transfer_leaves_the_old_weights_in_use(
    model: PreTrainedModel, requests: Sequence[GenerationRequest], tmp_path: Path
) -> None:
    """Names and shapes are right, so the weights are only refused during the transfer."""
    newer = perturbed(copy.deepcopy(model), 60)
    with vllm_engine(model, tmp_path) as (engine, runner):
        real = WeightsExtension.load_policy
        broken = iter([True, False])

        def load_half(worker: WeightsExtension, source: bytes | str) -> None:
            if next(broken, False):
                assert not isinstance(source, str)
                names = list(safetensors.torch.load(bytes(source)).items())
                worker.reload_weights(weights_iterator=iter(names[: len(names) // 2]))
                raise RuntimeError("the line went dead")
            real(worker, source)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(WeightsExtension, "load_policy", load_half)
            with pytest.raises(EngineError, match=r"line went dead.*the old ones stay in use"):
                runner.run(engine.update_weights(weights_payload(newer), 1))
            written = runner.run(write_all(engine, requests))
            assert sheets(written) == expected(model, requests)
            assert {generation.policy_version for generation in written} == {0}
            broken = iter([True, True])
            with pytest.raises(EngineError, match="left with half of its weights"):
                runner.run(engine.update_weights(weights_payload(newer), 1))
            with pytest.raises(EngineError, match="left with half of its weights"):
                runner.run(engine.generate(requests[0]))


async def swap_under_an_opponent(
    engine: VLLMEngine, requests: Sequence[GenerationRequest], payload: bytes
) -> list[list[int]]:
    """A frozen opponent's sheets while the learner's weights arrive: the swap waits for them."""
    early = asyncio.create_task(write_all(engine, [replace(request, policy="frozen") for request in requests]))
    await asyncio.sleep(0.05)
    await engine.update_weights(payload, 2)
    return sheets(await early)


def test_an_engine_in_a_separate_process_agrees_with_torch(
    model: PreTrainedModel, requests: Sequence[GenerationRequest], tmp_path: Path
) -> None:
    newer = perturbed(copy.deepcopy(model), 50)
    settings = InferenceSettings(kv_cache_mib=64, engine_process="own")
    with vllm_engine(model, tmp_path, settings, max_lora_rank=8) as (engine, runner):
        assert sheets(runner.run(write_all(engine, requests))) == expected(model, requests)
        payload, probe = weights_payload(newer), make_probe(newer, [requests[0].prompt_ids])
        runner.run(engine.update_weights(payload, 1, probe=probe))
        assert sheets(runner.run(write_all(engine, requests))) == expected(newer, requests)
        with pytest.raises(EngineError, match="does not compute what the learner does"):
            runner.run(engine.update_weights(weights_payload(model), 2, probe=probe))
        assert sheets(runner.run(write_all(engine, requests))) == expected(newer, requests)
        wrapped = add_adapters(copy.deepcopy(model), PolicySettings(use_peft=True, lora_r=8), seed=0)
        runner.run(engine.update_weights(adapter_payload(wrapped), 1, policy="adapted"))
        asked = [replace(request, policy="adapted") for request in requests]
        assert sheets(runner.run(write_all(engine, asked))) == expected(model, requests)  # a fresh adapter adds nothing


def test_start_errors_name_the_cause_in_one_line(model: PreTrainedModel, tmp_path: Path) -> None:
    save_model(model, word_tokenizer(), tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "elsewhere")
    with pytest.raises(EngineError, match="cannot read the weights") as missing:
        start_core(tmp_path, InferenceSettings(kv_cache_mib=64), CoreOptions(on_gpu=False))
    (tmp_path / "elsewhere").rename(tmp_path / "model.safetensors")
    with pytest.raises(EngineError, match=r"too little memory.*inference.kv_cache_mib") as memory:
        start_core(tmp_path, InferenceSettings(kv_cache_mib=10_000_000), CoreOptions(on_gpu=False))
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace("Qwen3ForCausalLM", "UnknownForCausalLM"))
    with pytest.raises(EngineError, match=r"does not know the model.*inference.engine = torch") as unknown:
        start_core(tmp_path, InferenceSettings(kv_cache_mib=64), CoreOptions(on_gpu=False))
    assert all("\n" not in str(error.value) for error in (missing, memory, unknown))
