"""One adapter a role: which episodes train it, what engines get, what a checkpoint keeps."""

from __future__ import annotations

import copy
import functools
from pathlib import Path

import pytest
import torch
from peft import get_peft_model_state_dict
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from grpo_core.checkpoints.store import load_checkpoint, save_checkpoint
from grpo_core.errors import CheckpointError
from grpo_core.learner import Learner
from grpo_core.models.lora import adapter_payload, adapters_off, add_adapters, folder_payload, merged
from grpo_core.models.named_tensors import from_safetensors, named_tensors
from grpo_core.models.pretrained import ADAPTER, load_model, save_model, saved_specialists
from grpo_core.models.role_adapters import (
    active_role,
    adapter_roles,
    add_role_adapters,
    load_role_adapters,
    role_adapter_payloads,
    saved_roles,
)
from grpo_core.models.weight_probe import make_probe
from grpo_core.settings import AlignmentSettings, GroupingSettings, LearnerSettings, PolicySettings
from grpo_core.types import Batch, Episode
from tests.unit.grpo_core.support.adapters import logits, moved
from tests.unit.grpo_core.support.cases import ROLES, ragged_episodes, tiny_model

LORA = PolicySettings(use_peft=True, specialists=True, lora_r=3)
GROUPING = GroupingSettings(keys=("country",), min_group_size=2, scale_rewards="group")
STEP = LearnerSettings(learning_rate=0.01, lr_warmup_updates=0, weight_decay=0.1, minibatches=1, max_grad_norm=0.05)


def specialists() -> nn.Module:
    return copy.deepcopy(_made_once())


@functools.cache
def _made_once() -> nn.Module:
    return with_roles(ROLES)


def with_roles(roles: tuple[str, ...], architecture: str = "qwen3", settings: PolicySettings = LORA) -> nn.Module:
    return add_role_adapters(tiny_model(architecture), settings, 1, roles)


def weights_of(model: nn.Module, role: str) -> dict[str, Tensor]:
    return {
        name.replace(f".{role}.", "."): value.detach().clone()
        for name, value in model.named_parameters()
        if name.endswith(f".{role}.weight")
    }


def of_roles(episodes: tuple[Episode, ...], *roles: str) -> tuple[Episode, ...]:
    return tuple(episode for episode in episodes if episode.role in roles)


def test_role_adapters_start_like_a_single_adapter_and_are_all_trained() -> None:
    model, alone = specialists(), add_adapters(tiny_model(), LORA, seed=1)
    assert adapter_roles(model) == ROLES
    assert adapter_roles(alone) == adapter_roles(tiny_model()) == ()
    assert set(role_adapter_payloads(model).values()) == {adapter_payload(alone)}
    trained = {name for name, value in model.named_parameters() if value.requires_grad}
    assert trained == {name for name, _ in model.named_parameters() if ".lora_" in name}
    assert len(trained) == len(ROLES) * sum(value.requires_grad for value in alone.parameters())


@pytest.mark.parametrize(
    ("architecture", "targets"), [("qwen3", ("all-linear",)), ("qwen2", ("all-linear",)), ("qwen3", ("o_proj",))]
)
def test_each_roles_payload_has_the_names_and_values_that_peft_saves(
    architecture: str, targets: tuple[str, ...]
) -> None:
    # The second role's name contains the first's.
    settings = LORA.model_copy(update={"lora_target_modules": targets})
    model = moved(with_roles(("FRANCE", "NEW_FRANCE", "TURKEY"), architecture, settings))
    payloads = role_adapter_payloads(model)
    assert len(set(payloads.values())) == 3
    for role, payload in payloads.items():
        expected = get_peft_model_state_dict(model, adapter_name=role, save_embedding_layers=False)
        sent = from_safetensors(payload)
        assert sorted(sent) == sorted(expected)
        assert all(torch.equal(sent[name], tensor) for name, tensor in expected.items())
        assert {tensor.dtype for tensor in sent.values()} == {torch.float32}


def test_only_the_active_roles_adapter_changes_the_output() -> None:
    model = moved(specialists())
    base = logits(tiny_model())
    assert torch.equal(logits(model), base)
    found = []
    for role, payload in role_adapter_payloads(model).items():
        with active_role(model, role):
            assert all(value.requires_grad == (".lora_" in name) for name, value in model.named_parameters())
            found.append(logits(model))
            with adapters_off(model):
                assert torch.equal(logits(model), base)
            assert torch.equal(logits(model), found[-1])
        plain = tiny_model()
        plain.load_state_dict(merged(named_tensors(plain), payload))
        torch.testing.assert_close(found[-1], logits(plain), rtol=1e-5, atol=1e-5)
    assert min(float((one - other).abs().max()) for one in found for other in found if one is not other) > 0.1
    with pytest.raises(ZeroDivisionError), active_role(model, "TURKEY"):
        _ = 1 / 0
    assert torch.equal(logits(model), base)
    with pytest.raises(ValueError, match="no specialist for 'ITALY'; there are AUSTRIA"), active_role(model, "ITALY"):
        pass


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"beta": 0.1, "entropy_coef": 0.01, "gradient_checkpointing": True, "epochs": 2},
        {"decoupled": True, "epochs": 2, "loss_type": "dapo", "tokens_per_microbatch": 256},
        {"normalizer": "episode", "returns": "episode"},
    ],
    ids=str,
)
def test_each_role_adapter_is_trained_by_its_own_episodes_alone(changes: dict[str, object]) -> None:
    """Over two updates, of which the second lacks a role. Exactly so with ``minibatches = 1`` and advantages scaled by
    group (or not at all): other minibatches would be drawn, and ``scale_rewards = "batch"`` looks at the whole batch.
    """
    settings = STEP.model_copy(update=changes)
    model = specialists()
    learner = Learner(model, settings, GROUPING, seed=3)
    batches = [ragged_episodes(11, 12), of_roles(ragged_episodes(12, 12), "AUSTRIA", "FRANCE")]
    norms = [learner.step(Batch(episodes, version)).metrics["grad_norm"] for version, episodes in enumerate(batches)]
    assert min(norms) > settings.max_grad_norm, "clipping takes part"
    for role in ROLES:
        alone = Learner(add_adapters(tiny_model(), LORA, seed=1), settings, GROUPING, seed=4)
        first = weights_of(alone.model, "default")
        for version, episodes in enumerate(batches):
            if own := of_roles(episodes, role):
                alone.step(Batch(own, version))
        wanted, found = weights_of(alone.model, "default"), weights_of(model, role)
        assert max(float((wanted[name] - first[name]).abs().max()) for name in wanted) > 1e-3
        for name, value in wanted.items():
            torch.testing.assert_close(found[name], value, rtol=0, atol=1e-6)


def test_a_role_without_turns_keeps_its_weights_and_moments() -> None:
    learner = Learner(specialists(), STEP.model_copy(update={"minibatches": 3}), GROUPING, seed=3)
    learner.step(Batch(ragged_episodes(11, 18), 0))
    before, state = weights_of(learner.model, "TURKEY"), learner.state()
    learner.step(Batch(of_roles(ragged_episodes(12, 18), "AUSTRIA"), 1))
    after, later = weights_of(learner.model, "TURKEY"), learner.state()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    steps, others = state.record["optimizer_steps"], later.record["optimizer_steps"]
    for name, count in steps.items():
        assert others[name] == count + (3 if ".AUSTRIA." in name else 0)
        same = torch.equal(state.tensors[f"exp_avg/{name}"], later.tensors[f"exp_avg/{name}"])
        assert same == (".AUSTRIA." not in name)


def test_role_adapters_resume_bit_for_bit_from_a_checkpoint(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    settings = LearnerSettings(learning_rate=0.01, beta=0.1, decoupled=True, minibatches=2)
    straight = Learner(specialists(), settings, GROUPING, seed=3)
    straight.step(Batch(ragged_episodes(11, 18), 0))
    folder = save_checkpoint(tmp_path, straight, lambda target: save_model(straight.model, tokenizer, target), {})
    assert saved_specialists(folder) == saved_roles(folder / ADAPTER) == ROLES
    with pytest.raises(CheckpointError, match=r"holds specialists \(AUSTRIA, FRANCE, TURKEY\), and .* one policy"):
        load_model(folder)
    base, _ = load_model(folder, shared_base=True)
    for name, tensor in named_tensors(tiny_model()).items():
        assert torch.equal(named_tensors(base)[name], tensor)
    for role, payload in role_adapter_payloads(straight.model).items():
        sent, kept = (merged(named_tensors(base), each) for each in (payload, folder_payload(folder / ADAPTER / role)))
        assert all(torch.equal(sent[name], kept[name]) for name in sent)
    resumed = Learner(add_role_adapters(base, LORA, 9, ROLES), settings, GROUPING, seed=8)
    load_role_adapters(resumed.model, folder / ADAPTER)
    resumed.load_state(load_checkpoint(folder).state)
    results = [each.step(Batch(ragged_episodes(12, 18), 1)) for each in (straight, resumed)]
    assert results[0].audit["steps"] == results[1].audit["steps"]
    assert role_adapter_payloads(straight.model) == role_adapter_payloads(resumed.model)
    (folder / ADAPTER / "FRANCE" / "adapter_model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"FRANCE.*cannot be read"):
        load_role_adapters(resumed.model, folder / ADAPTER)


def test_a_weight_probe_differs_between_roles() -> None:
    model = moved(specialists())
    probes = []
    for role in ROLES:
        with active_role(model, role):
            probes.append(make_probe(model, [(3, 4, 5)]))
    assert len({probe.logprobs for probe in probes}) == len(ROLES)


def test_options_that_conflict_with_specialists_are_refused_in_one_line() -> None:
    model = specialists()
    shared = GROUPING.model_copy(update={"gradient_surgery": "pcgrad"})
    for grouping, options in (
        (shared, {}),
        (GROUPING, {"alignment": AlignmentSettings(weight=0.1)}),
    ):
        with pytest.raises(ValueError, match=r"^specialists .*; turn them off, or train one adapter") as caught:
            Learner(model, STEP, grouping, seed=0, **options)
        assert "\n" not in str(caught.value)
    learner = Learner(with_roles(("FRANCE",)), STEP, GROUPING, seed=0)
    with pytest.raises(ValueError, match="turns of AUSTRIA, who has no specialist; there are FRANCE"):
        learner.step(Batch(ragged_episodes(11), 0))
    for roles in ((), ("FRANCE", "FRANCE"), ("a.b",), ("default",), ("self_attn",)):
        with pytest.raises(ValueError, match=r"each named once|cannot be called"):
            with_roles(roles)
    with pytest.raises(ValueError, match="specialists needs use_peft = true"):
        PolicySettings(specialists=True)
