"""Every loss through the whole learner, compared with a loop over turns written from the definitions."""

import copy
import dataclasses
import json

import numpy as np
import pytest
import torch

from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.learner import Learner
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Batch
from tests.unit.grpo_core.forward.test_logprobs import dense
from tests.unit.grpo_core.losses.test_policy_loss import VARIANTS
from tests.unit.grpo_core.support.cases import episode_of, ragged_episodes, ragged_turn, tiny_model

GROUPING = GroupingSettings(
    keys=("country+phase", "country"), min_group_size=2, scale_rewards="none", baseline="leave_one_out"
)


def moved(model, seed, size=0.05):
    """A copy with a little noise on every weight."""
    other, rng = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in other.parameters():
            value.add_(size * value.std() * torch.randn(value.shape, generator=rng))
    return other


def turn_loss(options, lp, entropy, old, reference, advantage):
    """Token losses of one turn at its proximal policy, which is the policy itself."""
    start = lp.detach()
    gap = lp - (start if options.decoupled else old)
    if options.loss_type == "rloo":
        gap = gap.sum().expand_as(gap)
    elif options.importance_sampling_level == "sequence":
        gap = gap.mean().expand_as(gap)
    ratio = gap.exp()
    if options.loss_type == "cispo":
        loss = -torch.minimum(ratio, torch.tensor(options.epsilon_high)).detach() * advantage * lp
    else:
        near = ratio.clamp(1 - options.epsilon, 1 + options.epsilon_high) * advantage
        first = ratio if options.delta is None else ratio.clamp(max=options.delta)
        loss = -torch.minimum(first * advantage, near)
    if options.decoupled:
        weight = (start - old).exp()
        if options.importance_sampling_mode == "token_truncate":
            weight = weight.clamp(max=options.importance_sampling_clip_max)
        elif options.importance_sampling_mode == "sequence_mask":
            weight = (start - old).sum().exp()
            weight = weight * (weight <= options.importance_sampling_clip_max)
        loss = loss * weight
    if options.off_policy_mask_threshold is not None and advantage < 0:
        loss = loss * ((old - start).mean() <= options.off_policy_mask_threshold)
    if options.beta:
        d = reference - lp
        kl = {"k1": -d, "k2": d**2 / 2, "k3": d.exp() - 1 - d}[options.kl_estimator]
        loss = loss + options.beta * (kl * ratio if options.use_bias_correction_kl else kl)
    return loss - options.entropy_coef * entropy


@pytest.fixture(scope="module")
def passed():
    """A policy, its reference, episodes, and of each turn with a choice both models' dense passes."""
    episodes, model = ragged_episodes(5, count=6), tiny_model(seed=3)
    reference = moved(model, 1)
    passes = []
    for turn in [turn for episode in episodes for turn in episode.turns]:
        if turn.trained_mask.any():
            with torch.no_grad():
                other, _ = dense(reference, turn)
            passes.append((*dense(model, turn), other))
        else:
            passes.append(None)
    return model, reference, episodes, passes


def plain_loss(passes, episodes, options):
    """One optimizer step over all turns: dense passes, no micro-batches, the sum divided at the end."""
    advantages = compute_advantages(episodes, options, GROUPING, {}).turn_advantages.tolist()
    turns = [turn for episode in episodes for turn in episode.turns]
    losses = []
    for turn, advantage, found in zip(turns, advantages, passes, strict=True):
        if found is not None:
            lp, entropy, other = found
            old = torch.from_numpy(turn.logprobs[turn.trained_mask])
            losses.append(turn_loss(options, lp, entropy, old, other, advantage))
    if options.loss_type in ("grpo", "rloo"):
        return torch.stack([loss.mean() for loss in losses]).mean()
    total = torch.cat(losses).sum()
    if options.loss_type == "dr_grpo":
        return total / (len(losses) * options.max_completion_length)
    return total / sum(len(loss) for loss in losses)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_learners_loss_and_gradient_equal_a_dense_loop(name, passed):
    options = LearnerSettings(minibatches=1, tokens_per_microbatch=256, max_grad_norm=1e9, **VARIANTS[name])
    model, reference, episodes, passes = passed
    loss = plain_loss(passes, episodes, options)
    found = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    gradients = dict(zip(dict(model.named_parameters()), found, strict=True))
    # Copies, because the step changes the weights that the dense passes belong to.
    learner = Learner(copy.deepcopy(model), options, GROUPING, seed=0, reference=copy.deepcopy(reference))
    result = learner.step(Batch(episodes, 0))
    assert result.metrics["loss"] == pytest.approx(float(loss.detach()), abs=1e-5)
    moments = learner.state().tensors  # after one step AdamW's first moment is a tenth of the gradient
    for parameter, gradient in gradients.items():
        torch.testing.assert_close(moments[f"exp_avg/{parameter}"] * 10, gradient, atol=1e-5, rtol=1e-4)
    assert result.audit["loss_type"] == options.loss_type
    assert result.audit["normalizer"] == options.named_normalizer
    json.dumps(result.audit, allow_nan=False)


@pytest.mark.parametrize(("loss_type", "adds_up"), [("dapo", True), ("bnpo", False)])
def test_tokens_weigh_the_same_in_every_step_only_under_dapo(loss_type, adds_up):
    """With three steps, and with one step a turn since 99 were requested."""
    episodes, losses = ragged_episodes(4, count=10), {}
    for minibatches in (1, 3, 99):
        options = LearnerSettings(loss_type=loss_type, minibatches=minibatches, learning_rate=1e-30)
        steps = Learner(tiny_model(), options, GROUPING, seed=0).step(Batch(episodes, 0)).audit["steps"]
        assert 1 <= len(steps) <= min(minibatches, 40)
        losses[minibatches] = np.mean([step["loss"] for step in steps])
    assert (losses[1] == pytest.approx(losses[3], rel=1e-4)) == adds_up
    assert (losses[1] == pytest.approx(losses[99], rel=1e-4)) == adds_up


def sampled_by(model, episodes, shift=0.0):
    """The same episodes as if this model had sampled them, all its log-probabilities lowered by ``shift``."""

    def resampled(turn):
        logprobs = turn.logprobs.copy()
        if turn.trained_mask.any():
            logprobs[turn.trained_mask] = dense(model, turn)[0].detach().numpy() - shift
        return dataclasses.replace(turn, logprobs=logprobs)

    return tuple(dataclasses.replace(e, turns=tuple(resampled(turn) for turn in e.turns)) for e in episodes)


def test_decoupled_steps_clip_against_the_proximal_policy_and_weight_by_importance():
    fresh = sampled_by(tiny_model(), ragged_episodes(6, count=8))
    stale = sampled_by(tiny_model(), ragged_episodes(6, count=8), shift=float(np.log(2)))
    options = {"minibatches": 2, "epochs": 2, "learning_rate": 1e-2, "lr_warmup_updates": 0, "max_grad_norm": 1e9}
    coupled = Learner(tiny_model(), LearnerSettings(**options), GROUPING, seed=0).step(Batch(fresh, 0))
    assert coupled.metrics["ratio_max"] > 1.3  # the steps move the policy far enough to be clipped
    results = {
        name: Learner(tiny_model(), LearnerSettings(decoupled=True, **options), GROUPING, seed=0).step(Batch(data, 0))
        for name, data in (("fresh", fresh), ("stale", stale))
    }
    for one, other, twice in zip(
        coupled.audit["steps"], results["fresh"].audit["steps"], results["stale"].audit["steps"], strict=True
    ):
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-3, abs=1e-5)
        assert twice["loss"] == pytest.approx(2 * one["loss"], rel=1e-3, abs=1e-5)
        assert twice["grad_norm"] == pytest.approx(2 * one["grad_norm"], rel=1e-3)
    metrics = results["stale"].metrics
    assert metrics["importance_weight_mean"] == pytest.approx(2, rel=1e-4)
    assert metrics["importance_effective_fraction"] == pytest.approx(1, rel=1e-4)
    assert metrics["ratio_max"] == pytest.approx(coupled.metrics["ratio_max"], rel=1e-2)


def test_metrics_of_unused_options_are_absent():
    metrics = Learner(tiny_model(), LearnerSettings(), GROUPING, seed=0).step(Batch(ragged_episodes(1), 0)).metrics
    assert not {name for name in metrics if name.startswith(("importance", "reference", "clip_fraction_dual"))}
    options = LearnerSettings(off_policy_mask_threshold=1e-6, delta=1.5)
    metrics = Learner(tiny_model(), options, GROUPING, seed=0).step(Batch(ragged_episodes(1), 0)).metrics
    assert 0 < metrics["importance_masked_fraction"] < 1
    assert metrics["importance_weight_mean"] == pytest.approx(1 - metrics["importance_masked_fraction"])
    assert "clip_fraction_dual" in metrics


def test_a_kl_penalty_alone_moves_the_policy_towards_its_reference():
    reference = tiny_model()
    learner = Learner(
        moved(reference, 2, size=0.3),
        # Descent on fixed tokens; with the correction the penalty falls only in expectation over fresh ones.
        LearnerSettings(beta=1.0, use_bias_correction_kl=False, lr_warmup_updates=0, minibatches=1),
        GROUPING,
        seed=0,
        reference=reference,
    )
    before = [value.clone() for value in reference.parameters()]
    divergences = []
    turns = [ragged_turn(np.random.default_rng(n), reward=0.1) for n in range(12)]
    episodes = tuple(episode_of((turn,), name=f"b/{n}") for n, turn in enumerate(turns))
    for version in range(6):
        metrics = learner.step(Batch(episodes, version)).metrics
        assert (metrics["zero_variance_fraction"], metrics["optimizer_steps"]) == (1, 1)
        divergences.append(metrics["reference_kl"])
    assert divergences[-1] < 0.2 * divergences[0]
    for old, new in zip(before, reference.parameters(), strict=True):
        assert torch.equal(old, new)
        assert new.grad is None


def test_a_learner_without_what_its_loss_needs_is_refused():
    model, penalty = tiny_model(), LearnerSettings(beta=0.1)
    with pytest.raises(ValueError, match="needs a reference"):
        Learner(model, penalty, GROUPING, seed=0)
    with pytest.raises(ValueError, match="shares parameters"):
        Learner(model, penalty, GROUPING, seed=0, reference=model)
    with pytest.raises(ValueError, match=r"rloo needs grouping\.baseline = leave_one_out"):
        Learner(model, LearnerSettings(loss_type="rloo"), GroupingSettings(), seed=0)
