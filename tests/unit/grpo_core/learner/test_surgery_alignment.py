"""Gradient surgery, cross-role alignment and segment returns through the learner."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.batching.microbatches import training_turns
from grpo_core.errors import GroupingError, ResourceError
from grpo_core.gradients import gradient_surgery as surgery
from grpo_core.learner import Learner
from grpo_core.losses.representation_alignment import alignment_of_turns, masked_mean
from grpo_core.settings import AlignmentSettings, GroupingSettings, LearnerSettings
from grpo_core.types import Batch
from tests.unit.grpo_core.support.cases import ROLES, cagrad, pcgrad, ragged_episodes, tiny_model

LEARNER = LearnerSettings(minibatches=1, max_grad_norm=1e9, normalizer="token")


def first_gradient(episodes, grouping, settings=LEARNER, **options):
    """The gradient of the first optimizer step, flat: ten times AdamW's first moment; and the update's result."""
    learner = Learner(tiny_model(seed=3), settings, grouping, seed=0, **options)
    result = learner.step(Batch(episodes, 0))
    moments = learner.state().tensors
    return torch.cat([moments[name].reshape(-1) * 10 for name in sorted(moments) if name[:8] == "exp_avg/"]), result


def one_role_at_a_time(episodes):
    """Each role's share of the loss's gradient: the others' advantages are set to 0 by hand."""
    shares = []
    for role in ROLES:
        others = [each for each in episodes if each.role != role]
        zeroed = {
            each.episode_id: dataclasses.replace(
                each, turns=tuple(dataclasses.replace(turn, reward=0.0) for turn in each.turns)
            )
            for each in others
        }
        gradient, _ = first_gradient([zeroed.get(each.episode_id, each) for each in episodes], GroupingSettings(
            scale_rewards="none"
        ))  # fmt: skip
        shares.append(gradient)
    return torch.stack(shares)


@pytest.mark.parametrize("method", ["pcgrad", "cagrad"])
def test_surgery_combines_the_roles_own_gradients(method):
    episodes = ragged_episodes(5, count=24)
    shares = one_role_at_a_time(episodes)
    grouping = GroupingSettings(scale_rewards="none", gradient_surgery=method, cagrad_c=0.7)
    found, result = first_gradient(episodes, grouping)
    if method == "cagrad":
        expected = cagrad(shares, 0.7) * len(ROLES)
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-3)
    else:  # the orders are the learner's draw: one of them must be it
        possible = [pcgrad(shares, np.random.default_rng(seed)) * len(ROLES) for seed in range(60)]
        assert min(float((found - each).abs().max()) for each in possible) < 2e-5
    record = result.audit["steps"][0]["surgery"]
    assert list(record["grad_norms"]) == sorted(ROLES)
    assert record["grad_norms"]["FRANCE"] == pytest.approx(float(shares[1].norm()), rel=1e-3)
    cosines = [
        float(torch.cosine_similarity(shares[a], shares[b], dim=0)) for a, b in ((0, 1), (0, 2), (1, 2))
    ]  # fmt: skip
    assert result.metrics["gradient_cosine"] == pytest.approx(np.mean(cosines), abs=1e-3)
    assert result.metrics["gradient_conflict_fraction"] == pytest.approx(np.mean(np.array(cosines) < 0))
    json.dumps(result.audit, allow_nan=False)


def test_surgery_at_radius_zero_is_the_plain_gradient_and_a_larger_radius_changes_it():
    episodes = ragged_episodes(5, count=24)
    plain, result = first_gradient(episodes, GroupingSettings(scale_rewards="none"))
    assert result.audit["steps"][0]["surgery"] is None
    assert "gradient_cosine" not in result.metrics
    same, _ = first_gradient(episodes, GroupingSettings(scale_rewards="none", gradient_surgery="cagrad", cagrad_c=0.0))
    torch.testing.assert_close(same, plain, atol=2e-5, rtol=1e-3)
    other, _ = first_gradient(episodes, GroupingSettings(scale_rewards="none", gradient_surgery="cagrad", cagrad_c=0.9))
    assert float((other - plain).norm()) > 0.1 * float(plain.norm())


def test_surgery_can_group_by_an_episode_fact_and_names_a_missing_one():
    episodes = tuple(
        dataclasses.replace(each, keys={**each.keys, "lineup": f"l{index % 2}"})
        for index, each in enumerate(ragged_episodes(6, count=16))
    )
    by_lineup = GroupingSettings(keys=("country",), gradient_surgery="cagrad", surgery_key="country+lineup")
    _, result = first_gradient(episodes, by_lineup, LEARNER.model_copy(update={"returns": "episode"}))
    assert set(result.audit["steps"][0]["surgery"]["grad_norms"]) <= {f"{role}+l{n}" for role in ROLES for n in (0, 1)}
    with pytest.raises(GroupingError, match="wether"):
        first_gradient(episodes, GroupingSettings(gradient_surgery="pcgrad", surgery_key="country+wether"))
    with pytest.raises(GroupingError, match="mix roles"):
        Learner(tiny_model(), LEARNER, GroupingSettings(gradient_surgery="pcgrad", surgery_key="lineup"), seed=0)


def test_surgery_is_refused_when_the_gradients_do_not_fit_in_memory(monkeypatch):
    monkeypatch.setattr(surgery, "_free_bytes", lambda _: 1000)
    with pytest.raises(ResourceError, match="3 groups"):
        first_gradient(ragged_episodes(5), GroupingSettings(gradient_surgery="pcgrad"))


def test_alignment_adds_its_own_gradient_for_any_micro_batch_size():
    episodes = ragged_episodes(9, count=18)
    alignment = AlignmentSettings(weight=0.5, pairs=(("AUSTRIA", "TURKEY"),), rows=64)
    grouping = GroupingSettings(scale_rewards="none")
    plain, _ = first_gradient(episodes, grouping)
    found, result = first_gradient(episodes, grouping, alignment=alignment)
    small, _ = first_gradient(
        episodes, grouping, LEARNER.model_copy(update={"tokens_per_microbatch": 256}), alignment=alignment
    )
    torch.testing.assert_close(found, small, atol=2e-5, rtol=1e-3)

    # Every turn of both roles was drawn: the loss written out, rows one at a time.
    model = tiny_model(seed=3)
    states = {"AUSTRIA": [], "TURKEY": []}
    for turn in training_turns(episodes, 0):
        role = episodes[turn.episode].role
        if role in states:
            read = torch.from_numpy(turn.input_ids[: turn.position_S[0] + 1].astype(np.int64))[None]
            states[role].append(model.get_decoder()(input_ids=read).last_hidden_state[0].mean(0))
    rows = {role: torch.stack(each) for role, each in states.items()}
    loss = (rows["AUSTRIA"].mean(0) - rows["TURKEY"].mean(0)).square().mean()
    for each in rows.values():
        loss = loss + torch.relu(1.0 - (each.var(0) + 1e-4).sqrt()).mean() / 2
        covariance = torch.cov(each.T)
        loss = loss + 0.04 * (covariance.square().sum() - covariance.diag().square().sum()) / each.shape[1] / 2
    loss = 0.5 * loss
    assert result.metrics["alignment_loss"] == pytest.approx(float(loss.detach()), rel=1e-4)
    named = dict(model.named_parameters())
    gradients = dict(
        zip(named, torch.autograd.grad(loss, list(named.values()), allow_unused=True), strict=True)
    )  # fmt: skip
    order = sorted(f"exp_avg/{name}" for name in named)
    expected = torch.cat(
        [
            (torch.zeros_like(named[key[8:]]) if gradients[key[8:]] is None else gradients[key[8:]]).reshape(-1)
            for key in order
        ]
    )
    torch.testing.assert_close(found - plain, expected, atol=3e-5, rtol=2e-3)


def test_alignment_samples_a_bounded_number_of_turns_and_needs_both_roles():
    episodes = ragged_episodes(9, count=18)
    turns = training_turns(episodes, 0)
    roles = [episodes[turn.episode].role for turn in turns]
    settings = AlignmentSettings(weight=1.0, pairs=(("AUSTRIA", "TURKEY"),), rows=3)
    drawn = [
        float(alignment_of_turns(tiny_model(), turns, roles, settings, np.random.default_rng(seed)).detach())
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    alone = AlignmentSettings(weight=1.0, pairs=(("GERMANY", "ITALY"),))
    nothing = alignment_of_turns(tiny_model(), turns, roles, alone, np.random.default_rng(0))
    assert (float(nothing), nothing.requires_grad) == (0.0, False)
    learner = Learner(tiny_model(), LEARNER, GroupingSettings(), seed=0, alignment=alone)
    assert learner.step(Batch(episodes, 0)).metrics["alignment_loss"] == 0
    assert masked_mean(torch.ones(1, 2, 3), torch.zeros(1, 2)).sum() == 0


def test_segment_returns_reach_the_advantages():
    episodes = ragged_episodes(4, count=12)
    settings = LEARNER.model_copy(update={"returns": "segment"})
    grouping = GroupingSettings(keys=("country+segment", "country"), min_group_size=2, scale_rewards="none")
    computed = compute_advantages(episodes, settings, grouping, {})
    first = episodes[0].turns
    assert computed.returns[0] == pytest.approx(sum(turn.reward for turn in first), rel=1e-5)
    result = Learner(tiny_model(), settings, grouping, seed=0).step(Batch(episodes, 0))
    assert result.audit["samples_by_level"]["country+segment"] == sum(len(each.turns) for each in episodes)
