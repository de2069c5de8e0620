"""The estimate against what torch allocates, and the refusal that follows from it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import GPT2Config

from grpo_core.errors import ResourceError
from grpo_core.learner import Learner
from grpo_core.models.lora import add_adapters
from grpo_core.models.pretrained import make_small_model, policy_payload, save_model
from grpo_core.settings import GroupingSettings, LearnerSettings, PolicySettings
from grpo_core.training.memory_estimate import (
    MemoryEstimate,
    ModelShape,
    check_learner_memory,
    estimate_memory,
)
from grpo_core.types import Batch, Episode
from services.inference.word_tokenizer import make_word_tokenizer
from tests.unit.grpo_core.support.cases import VOCABULARY, episode_of, ragged_turn, tiny_model
from tests.unit.grpo_core.support.tensor_memory import TensorMemory

MEGABYTE = 1 << 20
SHAPE = ModelShape(vocab_size=1000, hidden=128, layers=4, query=128, key_value=64, feed_forward=384)


def long_episodes(count: int = 9, turn_tokens: int = 100) -> tuple[Episode, ...]:
    """Episodes of one turn of about ``turn_tokens`` tokens."""
    rng = np.random.default_rng(0)
    prompts = [rng.integers(3, VOCABULARY, turn_tokens, dtype=np.int32) for _ in range(count)]
    turns = [ragged_turn(rng, prompt_ids=prompt) for prompt in prompts]
    return tuple(episode_of((turn,), name=f"b/{index}") for index, turn in enumerate(turns))


def of_seven_countries() -> tuple[Episode, ...]:
    """Nine long episodes a country, so that each has a gradient of its own."""
    return tuple(
        dataclasses.replace(episode, role=power, keys={**episode.keys, "country": power}, reward=float(index % 2))
        for index, (episode, power) in enumerate(zip(long_episodes(63), sorted([*"ABCDEFG"] * 9), strict=True))
    )


def estimated(
    model: nn.Module, policy: PolicySettings, learner: LearnerSettings, grouping: GroupingSettings
) -> MemoryEstimate:
    sizes = [(value.numel(), value.requires_grad) for value in model.parameters()]
    return estimate_memory(
        ModelShape.of(model.config),
        policy,
        learner,
        parameters=sum(size for size, _ in sizes),
        trained=sum(size for size, trained in sizes if trained),
        grouping=grouping,
    )


def measured_and_estimated(
    layers: int, policy_options: dict, learner_options: dict, surgery: str = "none", turn_tokens: int = 100
) -> tuple[int, MemoryEstimate]:
    small = {"hidden_size": 64, "intermediate_size": 192, "context_length": 128}
    policy = PolicySettings(**{**small, "layers": layers, **policy_options})
    learner = LearnerSettings(**{"minibatches": 1, "tokens_per_microbatch": 1000, **learner_options})
    model = make_small_model(policy, VOCABULARY, eos_id=1, bos_id=2, pad_id=0, seed=0)
    reference = tiny_copy(policy) if learner.beta > 0 and not policy.use_peft else None
    if policy.use_peft:
        model = add_adapters(model, policy, seed=0)
    grouping = GroupingSettings(keys=("country",), gradient_surgery=surgery)
    worker = Learner(model, learner, grouping, 0, reference=reference)
    estimate = estimated(model, policy, learner, grouping)
    episodes = long_episodes(turn_tokens=turn_tokens) if surgery == "none" else of_seven_countries()
    with TensorMemory() as memory:
        worker.step(Batch(episodes, 0))
    return memory.peak + estimate.weights + estimate.reference, estimate


def tiny_copy(policy: PolicySettings) -> nn.Module:
    return make_small_model(policy, VOCABULARY, eos_id=1, bos_id=2, pad_id=0, seed=0)


@pytest.mark.parametrize(
    ("layers", "policy", "learner"),
    [
        (2, {}, {}),
        (4, {}, {}),
        (2, {}, {"gradient_checkpointing": True}),
        (4, {}, {"gradient_checkpointing": True}),
        (2, {}, {"bf16": True}),
        (2, {}, {"beta": 0.1}),
        (2, {"use_peft": True}, {"beta": 0.1}),
        (2, {"use_peft": True, "dtype": "bfloat16"}, {}),
        (2, {"hidden_size": 256, "intermediate_size": 256}, {}),
    ],
    ids=str,
)
def test_a_learner_uses_no_more_memory_than_estimated(layers: int, policy: dict, learner: dict) -> None:
    measured, estimate = measured_and_estimated(layers, policy, learner)
    assert measured <= estimate.total, (measured / 1e6, str(estimate))


@pytest.mark.parametrize("seed", range(6))
def test_the_memory_estimate_holds_for_random_shapes_batches_and_threads(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def one_of(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    width = one_of(64, 128, 192)
    adapters = one_of(False, False, True)
    policy = {"hidden_size": width, "intermediate_size": one_of(64, 256, 512), "head_dim": one_of(32, 64),
              "use_peft": adapters, "dtype": one_of("float32", "bfloat16") if adapters else "float32",
              "architecture": one_of("qwen3", "llama")}  # fmt: skip
    learner = {"tokens_per_microbatch": one_of(300, 1000, 3000), "gradient_checkpointing": one_of(False, True),
               "bf16": one_of(False, False, True), "beta": one_of(0.0, 0.1), "minibatches": one_of(1, 2)}  # fmt: skip
    before = torch.get_num_threads()
    torch.set_num_threads(8 if seed == 3 else 1)  # of one shape only: threads without cores wait for one another
    try:
        measured, estimate = measured_and_estimated(one_of(1, 3, 6), policy, learner, turn_tokens=one_of(10, 60, 110))
    finally:
        torch.set_num_threads(before)
    assert measured <= estimate.total, (measured / 1e6, str(estimate), policy, learner)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_publishing_an_adapter_copies_the_base_once_for_the_checkpoint(dtype: str, tmp_path: Path) -> None:
    policy = PolicySettings(layers=3, hidden_size=192, intermediate_size=384, use_peft=True, dtype=dtype)
    model = add_adapters(make_small_model(policy, VOCABULARY, eos_id=1, bos_id=2, pad_id=0, seed=0), policy, seed=0)
    payload = policy_payload(model)
    with TensorMemory() as memory:
        save_model(model, make_word_tokenizer([f"w{number}" for number in range(VOCABULARY - 4)], r"\S+"), tmp_path)
    measured = memory.peak + len(payload)
    assert measured <= estimated(model, policy, LearnerSettings(), GroupingSettings()).publishing


@pytest.mark.parametrize("adapters", [False, True], ids=["full weights", "adapter"])
@pytest.mark.parametrize("processes", [1, 4])
def test_weights_for_engines_and_disk_are_counted_where_they_lie(adapters: bool, processes: int) -> None:
    policy, learner = PolicySettings(use_peft=adapters), LearnerSettings()
    trained, weights = 1_000_000, 400_000_000
    count = trained if adapters else weights // 4

    def of_device(*, on_gpu: bool, publishes: bool = True) -> MemoryEstimate:
        return estimate_memory(
            SHAPE, policy, learner, parameters=weights // 4, trained=count, processes=processes, on_gpu=on_gpu,
            publishes=publishes,
        )  # fmt: skip

    on_cpu, on_gpu = of_device(on_gpu=False), of_device(on_gpu=True)
    merged = weights if adapters and processes == 1 else 0  # on the device, which one tensor at a time is not
    one_tensor = 2 * 4 * SHAPE.vocab_size * SHAPE.hidden if processes > 1 else 0
    assert (on_cpu.published, on_cpu.on_host) == (0, 0)
    assert on_gpu.publishing == merged + one_tensor
    in_bytes = 8 * trained if adapters else weights * (2 if processes == 1 else 1)
    of_weights = one_tensor // 2 if processes > 1 else weights
    moved = 4 * trained if adapters else of_weights
    assert on_gpu.on_host == on_gpu.published == merged + moved + in_bytes
    assert on_cpu.publishing == on_gpu.publishing + in_bytes
    helps = of_device(on_gpu=True, publishes=False)
    assert (helps.publishing, helps.on_host) == (on_gpu.publishing, 0)


@pytest.mark.parametrize("policy", [{}, {"use_peft": True}], ids=str)
def test_the_estimate_of_gradient_surgery_holds_one_gradient_per_country(policy: dict) -> None:
    wide = {"hidden_size": 128, "intermediate_size": 384}  # so that the gradients are most of what is measured
    measured, estimate = measured_and_estimated(2, {**wide, **policy}, {}, "pcgrad")
    assert estimate.surgery == 7 * estimate.gradients
    assert measured <= estimate.total, (measured / 1e6, str(estimate))


def test_gradient_checkpointing_saves_more_memory_in_deeper_models() -> None:
    for layers, fraction in ((4, 0.65), (8, 0.4)):
        plain, _ = measured_and_estimated(layers, {}, {})
        recomputed, _ = measured_and_estimated(layers, {}, {"gradient_checkpointing": True})
        assert recomputed < fraction * plain


def test_model_shapes_are_read_from_configurations() -> None:
    assert ModelShape.of(tiny_model("qwen3").config) == ModelShape(VOCABULARY, 64, 2, 64, 32, 48)
    assert ModelShape.of(tiny_model("qwen2").config) == ModelShape(VOCABULARY, 64, 2, 64, 32, 32)
    gpt2 = ModelShape.of(GPT2Config(n_embd=48, n_head=4, n_layer=3, vocab_size=99))
    assert gpt2 == ModelShape(99, 48, 3, 48, 48, 192)


def of(policy: dict | None = None, free_text: bool = False, trained: int = 10_000, **learner: object) -> MemoryEstimate:
    return estimate_memory(
        SHAPE,
        PolicySettings(**policy or {}),
        LearnerSettings(**learner),
        parameters=10_000,
        trained=trained,
        free_text=free_text,
    )


def test_options_that_save_memory_lower_the_estimate() -> None:
    plain, adapters = of(), {"use_peft": True}
    assert (plain.weights, plain.gradients, plain.moments, plain.reference) == (40_000, 40_000, 80_000, 0)
    assert of(beta=0.1).reference == 40_000
    assert of(adapters, trained=100, beta=0.1).reference == 0
    assert of(adapters, trained=100).moments == 800
    assert of({**adapters, "dtype": "bfloat16"}, trained=100).weights == 20_200
    assert of({"context_length": 4096}).step == of(tokens_per_microbatch=4096).step
    recomputed = of(gradient_checkpointing=True)
    offloaded = of(gradient_checkpointing=True, activation_offloading=True)
    assert offloaded.step < recomputed.step
    assert offloaded.offloaded == SHAPE.layers * 4 * 2048 * SHAPE.hidden
    assert recomputed.offloaded == 0
    assert str(dataclasses.replace(offloaded, offloaded=1 << 30)).endswith("), and 1.00 GiB of the host's memory")
    for cheaper in (of(tokens_per_microbatch=1024), of(gradient_checkpointing=True), of(bf16=True)):
        assert cheaper.step < plain.step
        assert cheaper.total < plain.total


def test_a_learner_that_does_not_fit_is_refused_with_the_options_that_help() -> None:
    policy, learner = PolicySettings(), LearnerSettings()
    estimate = MemoryEstimate(100 * MEGABYTE, 100 * MEGABYTE, 200 * MEGABYTE, 0, 1024 * MEGABYTE, 200 * MEGABYTE)
    check_learner_memory(estimate, 1424 * MEGABYTE, policy, learner)
    with pytest.raises(ResourceError) as caught:
        check_learner_memory(estimate, 1424 * MEGABYTE - 1, policy, learner)
    message = str(caught.value)
    assert message == (
        "the learner needs about 1.39 GiB (weights 0.10, gradients 0.10, optimizer 0.20, micro-batch 1.00), 1.39 GiB "
        "are free: lower learner.tokens_per_microbatch (2048); set learner.gradient_checkpointing; set learner.bf16; "
        "train adapters (policy.use_peft); or take a smaller model"
    )
    operating = dataclasses.replace(estimate, surgery=700 * MEGABYTE)
    with pytest.raises(
        ResourceError, match=r"gradient surgery 0.68\), .* free: set grouping.gradient_surgery = none; "
    ):
        check_learner_memory(operating, 1424 * MEGABYTE, policy, learner)
    deep = LearnerSettings(gradient_checkpointing=True)
    for on_gpu in (False, True):
        with pytest.raises(ResourceError) as caught:
            check_learner_memory(estimate, MEGABYTE, policy, deep, on_gpu=on_gpu)
        assert ("set learner.activation_offloading" in str(caught.value)) == on_gpu
    everything = LearnerSettings(bf16=True, gradient_checkpointing=True)
    frozen = PolicySettings(use_peft=True, dtype="bfloat16")
    publishing = MemoryEstimate(MEGABYTE, 0, 0, 0, MEGABYTE, 3 * MEGABYTE)
    with pytest.raises(ResourceError, match=r"publishing 0.00.* are free: take a smaller model$"):
        check_learner_memory(publishing, MEGABYTE, frozen, everything)
