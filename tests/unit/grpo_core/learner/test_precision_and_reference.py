"""Options that fit larger models into a learner, and what they must not change."""

from __future__ import annotations

import copy
import functools
import io
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from transformers import GPT2Config, GPT2LMHeadModel

from grpo_core.checkpoints.store import load_checkpoint, save_checkpoint
from grpo_core.forward import policy_forward
from grpo_core.forward.policy_forward import PolicyForward
from grpo_core.learner import Learner
from grpo_core.models.fsdp import ALONE, Sharding
from grpo_core.models.lora import add_adapters, load_adapters
from grpo_core.models.pretrained import ADAPTER, load_model, plain_tensors, save_model
from grpo_core.settings import AlignmentSettings, GroupingSettings, LearnerSettings, PolicySettings
from grpo_core.types import Batch
from services.inference.word_tokenizer import make_word_tokenizer
from tests.unit.grpo_core.support.cases import VOCABULARY, micro_batches_of, prompt_groups, ragged_episodes, tiny_model

GROUPING = GroupingSettings(keys=("country",), min_group_size=2)
LORA = PolicySettings(use_peft=True, lora_r=3)
WORDS = [f"w{number}" for number in range(VOCABULARY - 4)]


def model_of(kind: str) -> nn.Module:
    if kind == "adapters":
        return add_adapters(tiny_model(), LORA, seed=1)
    if kind == "gpt2":  # its blocks run whole, and its decoder is called as one
        torch.manual_seed(0)
        config = GPT2Config(n_embd=32, n_head=4, n_layer=2, vocab_size=VOCABULARY, n_positions=64)
        return GPT2LMHeadModel(config)  # with dropout, were it ever in training mode
    return tiny_model(kind)


def gradients(model: nn.Module, **options: bool) -> dict[str, Tensor]:
    """Gradients of a sum over sampled tokens' log-probabilities and entropies."""
    forward = PolicyForward(model, **options)
    for micro in micro_batches_of(ragged_episodes(3)):
        chosen, entropy = forward(micro, entropy_grad=True)
        assert chosen.dtype == entropy.dtype == torch.float32
        (chosen * micro.behaviour_N + 0.1 * entropy).sum().backward()
    return {name: value.grad for name, value in model.named_parameters() if value.grad is not None}


@functools.cache
def exact_gradients(kind: str) -> dict[str, Tensor]:
    """Gradients without any option."""
    return gradients(model_of(kind))


@pytest.mark.parametrize("kind", ["qwen3", "qwen2", "gpt2", "adapters"])
def test_recomputed_blocks_give_the_same_gradients(kind: str) -> None:
    plain = exact_gradients(kind)
    recomputed = gradients(model_of(kind), gradient_checkpointing=True)
    assert plain.keys() == recomputed.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(recomputed[name], gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["qwen3", "gpt2", "adapters"])
def test_blocks_inputs_wait_on_the_host(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[torch.Size] = []
    taken: list[torch.Size] = []

    class Host(saved_tensors_hooks):
        def __init__(self, pin_memory: bool) -> None:
            assert pin_memory
            super().__init__(self.pack, self.unpack)

        def pack(self, tensor: Tensor) -> bytes:
            kept.append(tensor.shape)
            file = io.BytesIO()
            torch.save(tensor, file)
            return file.getvalue()

        def unpack(self, packed: bytes) -> Tensor:
            found = torch.load(io.BytesIO(packed), weights_only=True)
            taken.append(found.shape)
            return found

    monkeypatch.setattr(policy_forward, "save_on_cpu", Host)
    model = model_of(kind)
    found = gradients(model, gradient_checkpointing=True, activation_offloading=True)
    blocks = len(PolicyForward(model_of(kind)).called_blocks())
    batches = micro_batches_of(ragged_episodes(3))
    width = model.config.hidden_size
    inputs = [(*micro.input_ids.shape, width) for micro in batches for _ in range(blocks)]
    assert sorted(map(tuple, kept)) == sorted(inputs)  # the blocks' inputs, and nothing else
    assert sorted(taken) == sorted(kept)
    for name, gradient in exact_gradients(kind).items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("recomputed", [False, True])
@pytest.mark.parametrize("kind", ["qwen3", "qwen2", "gpt2", "adapters"])
def test_bf16_gradients_have_nearly_the_direction_and_norm_of_fp32_ones(kind: str, recomputed: bool) -> None:
    exact = exact_gradients(kind)
    model = model_of(kind)
    rough = gradients(model, bf16=True, gradient_checkpointing=recomputed)
    assert {value.dtype for value in model.parameters()} == {torch.float32}
    one, other = (torch.cat([g[name].flatten() for name in exact]).double() for g in (exact, rough))
    assert not torch.equal(one, other)
    assert float(torch.cosine_similarity(one, other, 0)) > 0.999
    assert float(other.norm() / one.norm()) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("kind", ["qwen3", "adapters"])
def test_shared_prompts_leave_an_update_as_it_is(kind: str) -> None:
    batch = Batch(prompt_groups(4, free=True), 0)
    found = []
    for whole_blocks in (False, True):  # blocks that are called as modules share nothing
        settings = LearnerSettings(minibatches=1, gradient_checkpointing=whole_blocks)
        learner = Learner(model_of(kind), settings, GROUPING, seed=0)
        found.append(learner.step(batch).metrics)
    shared, plain = found
    assert shared["grad_norm"] == pytest.approx(plain["grad_norm"], rel=1e-4)
    assert shared["loss"] == pytest.approx(plain["loss"], rel=1e-4)
    assert shared["input_tokens"] == plain["input_tokens"]
    assert 0 <= shared["padding_fraction"] != plain["padding_fraction"]


def test_options_reach_the_learners_forward_pass() -> None:
    updates: list[dict[str, float]] = []
    for options in ({}, {"gradient_checkpointing": True}, {"bf16": True}):
        learner = Learner(tiny_model(), LearnerSettings(**options), GROUPING, seed=0)
        calls = 0
        block = learner.model.get_decoder().layers[0]

        def count(*_: object) -> None:
            nonlocal calls
            calls += 1

        block.mlp.register_forward_pre_hook(count)
        updates.append({**learner.step(Batch(ragged_episodes(2), 0)).metrics, "calls": calls})
    plain, recomputed, bf16 = updates
    assert recomputed["calls"] == 2 * plain["calls"]
    assert recomputed["loss"] == plain["loss"]
    assert bf16["loss"] != plain["loss"]
    assert bf16["loss"] == pytest.approx(plain["loss"], abs=1e-2)


def test_an_adapter_uses_its_base_model_as_reference() -> None:
    settings = LearnerSettings(beta=0.5, learning_rate=1e-2, lr_warmup_updates=0, minibatches=1)
    model = add_adapters(tiny_model(), LORA, seed=1)
    frozen = {name: value.clone() for name, value in model.named_parameters() if not value.requires_grad}
    learner = Learner(model, settings, GROUPING, seed=0)
    twin_model = add_adapters(tiny_model(), LORA, seed=1)
    twin = Learner(twin_model, settings, GROUPING, seed=0)
    twin._passes.reference = PolicyForward(tiny_model())  # what the adapter stands for, as a second model
    for version in range(3):
        batch = Batch(ragged_episodes(version), version)
        metrics, expected = (each.step(batch).metrics for each in (learner, twin))
        assert metrics["reference_kl"] == pytest.approx(expected["reference_kl"], rel=1e-5, abs=1e-9)
        assert metrics["grad_norm"] == pytest.approx(expected["grad_norm"], rel=1e-5)
        assert (metrics["reference_kl"] > 1e-3) == (version > 0)
    after = dict(model.named_parameters())
    assert all(torch.equal(value, after[name]) for name, value in frozen.items())


def test_adapters_resume_bit_for_bit_from_the_base_weights_and_their_own_folder(tmp_path: Path) -> None:
    settings = LearnerSettings(beta=0.1, learning_rate=1e-2, lr_warmup_updates=0)
    tokenizer = make_word_tokenizer(WORDS, r"\S+")
    model = add_adapters(tiny_model(), LORA, seed=1)
    learner = Learner(model, settings, GROUPING, seed=0)
    folders = []
    for version in range(2):
        folders.append(save_checkpoint(tmp_path, learner, lambda folder: save_model(model, tokenizer, folder), {}))
        learner.step(Batch(ragged_episodes(version), version))
    folders.append(save_checkpoint(tmp_path, learner, lambda folder: save_model(model, tokenizer, folder), {}))
    base, _ = load_model(folders[0])
    for name, value in base.state_dict().items():
        assert torch.equal(value, tiny_model().state_dict()[name]), "a fresh adapter leaves the weights as they were"
    other_model = add_adapters(base, LORA, seed=99)
    load_adapters(other_model, folders[2] / ADAPTER)
    other = Learner(other_model, settings, GROUPING, seed=99)
    other.load_state(load_checkpoint(folders[2]).state)
    batch = Batch(ragged_episodes(5), 2)
    one, two = (each.step(batch) for each in (learner, other))
    assert one.audit["steps"] == two.audit["steps"]
    assert one.metrics["reference_kl"] == two.metrics["reference_kl"]
    for name, tensor in plain_tensors(model).items():
        assert torch.equal(tensor, plain_tensors(other_model)[name]), name


def test_surgery_and_alignment_are_refused_across_processes() -> None:
    pair = Sharding(0, 2, torch.device("cpu"))
    for grouping, alignment in (
        (GROUPING.model_copy(update={"gradient_surgery": "pcgrad"}), None),
        (GROUPING, AlignmentSettings(weight=1.0)),
    ):
        with pytest.raises(ValueError, match="do not work across processes"):
            Learner(tiny_model(), LearnerSettings(), grouping, 0, alignment=alignment, sharding=pair)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 20])
def test_ranks_partition_the_micro_batches_and_run_equally_many_passes(ranks: int) -> None:
    micros = micro_batches_of(ragged_episodes(4, count=30), budget=128)
    assert len(micros) > 5
    shares = [Sharding(rank, ranks, torch.device("cpu")).share(micros) for rank in range(ranks)]
    assert len({len(share) for share in shares}) == 1
    own = [micro for share in shares for micro, mine in share if mine]
    assert sorted(map(id, own)) == sorted(map(id, micros))
    for share in shares:
        assert all(float(micro.weight_N.abs().sum()) == 0 for micro, mine in share if not mine)
    assert ALONE.share([]) == []
    assert copy.copy(ALONE).share(micros) == [(micro, True) for micro in micros]
