import copy
import dataclasses
import json
import math

import numpy as np
import pytest
import torch

from grpo_core.advantages.returns import returns_to_go
from grpo_core.batching.microbatches import training_turns
from grpo_core.errors import CheckpointError, DivergenceError, GroupingError
from grpo_core.learner import Learner
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Batch, Turn
from tests.unit.grpo_core.forward.test_logprobs import dense
from tests.unit.grpo_core.support.cases import episode_of, ragged_episodes, ragged_turn, tiny_model

GROUPING = GroupingSettings(keys=("country+phase", "country"), min_group_size=2, scale_rewards="none")


def without_rewards_for_austria(episodes):
    """The same episodes with all rewards of Austria zero: its advantages are exactly 0."""
    return tuple(
        episode
        if episode.role != "AUSTRIA"
        else dataclasses.replace(episode, turns=tuple(dataclasses.replace(turn, reward=0.0) for turn in episode.turns))
        for episode in episodes
    )


@pytest.fixture(scope="module")
def passed():
    """A policy, episodes, and the dense passes of each turn with a choice."""
    episodes, model = without_rewards_for_austria(ragged_episodes(5, count=12)), tiny_model(seed=3)
    turns = [turn for episode in episodes for turn in episode.turns]
    return model, episodes, [dense(model, turn) if turn.trained_mask.any() else None for turn in turns]


def plain_loss(passes, episodes, settings):
    """The whole update's loss, one turn at a time from the definitions: dense passes, no micro-batches."""
    returns = [
        (e.role, turn, g) for e in episodes for turn, g in zip(e.turns, returns_to_go(e.turns, 0.85), strict=True)
    ]
    terms = []
    for index, (role, turn, value) in enumerate(returns):
        if not turn.trained_mask.any():
            continue
        group = [g for r, t, g in returns if r == role and t.phase == turn.phase]
        group = group if len(group) >= 2 else [g for r, _, g in returns if r == role]
        advantage = float(value) - float(np.mean(group, dtype=np.float64))
        chosen, entropy = passes[index]
        old = torch.from_numpy(turn.logprobs[turn.trained_mask])
        ratio = (chosen - old).exp()
        clipped = ratio.clamp(1 - settings.epsilon, 1 + settings.epsilon_high)
        surrogate = torch.minimum(ratio * advantage, clipped * advantage) + settings.entropy_coef * entropy
        owner = sum(len(e.turns) for e in episodes[: owner_of(episodes, index)])
        terms.append((owner, -surrogate))
    if settings.normalizer == "token":
        return torch.cat([term for _, term in terms]).mean()
    if settings.normalizer == "turn":
        return torch.stack([term.mean() for _, term in terms]).mean()
    owners = sorted({owner for owner, _ in terms})
    return torch.stack([torch.cat([t for o, t in terms if o == owner]).mean() for owner in owners]).mean()


def owner_of(episodes, turn_index):
    for owner, episode in enumerate(episodes):
        if turn_index < len(episode.turns):
            return owner
        turn_index -= len(episode.turns)
    raise AssertionError


@pytest.mark.parametrize("normalizer", ["token", "turn", "episode"])
@pytest.mark.parametrize(("budget", "entropy_coef"), [(256, 0.0), (256, 0.02), (100_000, 0.0)])
def test_the_learners_loss_and_gradients_equal_a_dense_loop(normalizer, budget, entropy_coef, passed):
    settings = LearnerSettings(
        normalizer=normalizer,
        minibatches=1,
        tokens_per_microbatch=budget,
        entropy_coef=entropy_coef,
        max_grad_norm=1e9,
    )
    model, episodes, passes = passed
    loss = plain_loss(passes, episodes, settings)
    found = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    gradients = dict(zip(dict(model.named_parameters()), found, strict=True))
    # A copy, because the step changes the weights that the dense passes belong to.
    learner = Learner(copy.deepcopy(model), settings, GROUPING, seed=0)
    metrics = learner.step(Batch(episodes, 0)).metrics
    assert metrics["loss"] == pytest.approx(float(loss.detach()), abs=1e-5)
    learnable = [t for t in training_turns(episodes, 0) if entropy_coef or episodes[t.episode].role != "AUSTRIA"]
    assert metrics["input_tokens"] == sum(len(turn.input_ids) for turn in learnable)
    # After one step from nothing, AdamW's first moment is a tenth of the gradient.
    moments = learner.state().tensors
    for name, gradient in gradients.items():
        torch.testing.assert_close(moments[f"exp_avg/{name}"] * 10, gradient, atol=1e-5, rtol=1e-4)


def test_a_whole_batch_step_does_not_depend_on_the_order_of_episodes():
    settings = LearnerSettings(minibatches=1, tokens_per_microbatch=256)
    episodes = ragged_episodes(6, count=12)
    first, second = (Learner(tiny_model(), settings, GroupingSettings(), seed=0) for _ in range(2))
    one = first.step(Batch(episodes, 0)).metrics
    other = second.step(Batch(episodes[::-1], 0)).metrics
    assert one["loss"] == pytest.approx(other["loss"], abs=1e-5)
    assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-4)


def test_the_same_seed_repeats_an_update_and_another_seed_shuffles_differently():
    settings = LearnerSettings(minibatches=3, epochs=2)
    losses = []
    for seed in (1, 1, 2):
        learner = Learner(tiny_model(), settings, GroupingSettings(), seed)
        steps = learner.step(Batch(ragged_episodes(7, count=12), 0)).audit["steps"]
        losses.append([step["loss"] for step in steps])
    assert len(losses[0]) == 6
    assert losses[0] == losses[1] != losses[2]


def test_a_learner_continues_bit_for_bit_from_a_saved_state():
    settings = LearnerSettings(minibatches=2)
    grouping = GroupingSettings(keys=("country+lineup",), min_group_size=8)  # all samples use the running baseline
    episodes = ragged_episodes(8)
    learner = Learner(tiny_model(), settings, grouping, seed=1)
    for version in range(2):
        learner.step(Batch(episodes, version))
    twin_model = tiny_model(seed=9)
    twin_model.load_state_dict(learner.model.state_dict())
    state = learner.state()
    json.dumps(state.record, allow_nan=False)
    twin = Learner(twin_model, settings, grouping, seed=77)
    twin.load_state(state)
    assert twin.version == 2
    for version in (2, 3):
        results = [each.step(Batch(episodes, version)) for each in (learner, twin)]
        assert results[0].audit["steps"] == results[1].audit["steps"]
        assert results[0].audit["groups"] == results[1].audit["groups"]
    assert not results[0].audit["groups"][0]["zero_variance"]
    for one, other in zip(learner.model.parameters(), twin.model.parameters(), strict=True):
        assert torch.equal(one, other)
    fresh = Learner(tiny_model("llama"), settings, grouping, seed=0)
    with pytest.raises(CheckpointError, match="does not fit"):
        fresh.load_state(state)


def test_the_advantage_memory_is_saved_and_restored():
    grouping = GroupingSettings(
        keys=("country+adaptive", "country"),
        min_group_size=2,
        n_groups=2,
        cluster_features=("rating",),
        group_weights="adaptive",
    )

    def batch(version):
        episodes = ragged_episodes(10 + version, count=12)
        rng = np.random.default_rng(version)
        rated = [
            dataclasses.replace(episode, keys={**episode.keys, "rating": int(rng.integers(12))}) for episode in episodes
        ]
        return Batch(tuple(rated), version)

    learner = Learner(tiny_model(), LearnerSettings(), grouping, seed=1)
    for version in range(2):
        learner.step(batch(version))
    twin_model = tiny_model()
    twin_model.load_state_dict(learner.model.state_dict())
    twin = Learner(twin_model, LearnerSettings(), grouping, seed=7)
    state = learner.state()
    json.dumps(state.record, allow_nan=False)
    twin.load_state(state)
    without_memory = Learner(tiny_model(), LearnerSettings(), grouping, seed=1)
    without_memory.version = 2
    audits = [each.step(batch(2)).audit for each in (learner, twin, without_memory)]
    assert audits[0]["group_weights"] == audits[1]["group_weights"] != audits[2]["group_weights"]
    assert audits[0]["groups"] == audits[1]["groups"] != audits[2]["groups"]
    assert audits[0]["steps"] == audits[1]["steps"]
    with pytest.raises(CheckpointError, match="incomplete"):
        twin.load_state(
            dataclasses.replace(state, tensors={k: v for k, v in state.tensors.items() if "window/" not in k})
        )


def test_a_batch_of_zero_variance_changes_no_weight_and_is_counted():
    episodes = [episode_of((ragged_turn(np.random.default_rng(n), reward=0.1),), name=f"b/{n}") for n in range(8)]
    learner = Learner(tiny_model(), LearnerSettings(), GroupingSettings(), seed=0)
    before = [parameter.detach().clone() for parameter in learner.model.parameters()]
    result = learner.step(Batch(tuple(episodes), 0))
    assert all(torch.equal(a, b) for a, b in zip(before, learner.model.parameters(), strict=True))
    assert result.metrics["zero_variance_fraction"] == 1
    assert (result.metrics["optimizer_steps"], result.metrics["skipped_steps"]) == (0, 2)
    assert learner.version == 1
    json.dumps(result.audit, allow_nan=False)


def test_the_audit_record_lists_groups_levels_and_staleness():
    grouping = GroupingSettings(keys=("country+phase", "country"), min_group_size=3)
    rng = np.random.default_rng(0)
    phases = ["S1901M"] * 3 + ["F1901M"]
    france = [
        episode_of((ragged_turn(rng, keys={"phase": phase}, policy_version=version),), name=f"f/{version}")
        for version, phase in enumerate(phases)
    ]
    alone = ragged_turn(rng, keys={"phase": "S1901M"}, policy_version=0)
    learner = Learner(tiny_model(), LearnerSettings(), grouping, seed=0)
    state = learner.state()
    learner.load_state(dataclasses.replace(state, record={**state.record, "version": 4}))
    result = learner.step(Batch((*france, episode_of((alone,), role="ITALY")), 4))
    assert result.audit["samples_by_level"] == {"country+phase": 3, "country": 1, "running": 1}
    assert [(group["size"], group["judged"]) for group in result.audit["groups"]] == [(3, 3), (4, 1), (1, 1)]
    assert result.metrics["fallback_fraction"] == pytest.approx(2 / 5)
    assert result.metrics["running_baseline_fraction"] == pytest.approx(1 / 5)
    assert result.metrics["zero_variance_fraction"] == pytest.approx(1 / 5)  # Italy has no running baseline yet
    assert (result.metrics["staleness_mean"], result.metrics["staleness_max"]) == (pytest.approx(2.8), 4)
    assert result.audit["version"] == 5
    assert result.audit["groups"][2]["mean"] is None
    json.dumps(result.audit, allow_nan=False)


def test_episode_returns_make_one_sample_of_each_episode():
    grouping = GroupingSettings(keys=("country",), min_group_size=2)
    settings = LearnerSettings(returns="episode", minibatches=1)
    episodes = ragged_episodes(9)
    result = Learner(tiny_model(), settings, grouping, seed=0).step(Batch(episodes, 0))
    assert result.metrics["samples"] == len(episodes)
    assert result.metrics["return_mean"] == pytest.approx(np.mean([episode.reward for episode in episodes]), abs=1e-6)
    assert result.metrics["reward/center_change"] == pytest.approx(result.metrics["reward_mean"])


def test_empty_late_or_non_finite_batches_are_refused_by_name():
    learner = Learner(tiny_model(), LearnerSettings(), GroupingSettings(), seed=0)
    with pytest.raises(ValueError, match="no episodes"):
        learner.step(Batch((), 0))
    with pytest.raises(ValueError, match="for version 3, the learner is at 0"):
        learner.step(Batch(ragged_episodes(0), 3))
    with pytest.raises(DivergenceError, match="b0/0 has a return that is not finite"):
        learner.step(Batch(ragged_episodes(0, reward=math.inf), 0))
    with pytest.raises(GroupingError, match="mix roles"):
        Learner(tiny_model(), LearnerSettings(), GroupingSettings(keys=("phase",)), seed=0)


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_divergence_error_leaves_the_weights_unchanged(where):
    learner = Learner(tiny_model(), LearnerSettings(minibatches=1), GroupingSettings(), seed=0)
    if where == "loss":
        with torch.no_grad():
            learner.model.lm_head.weight[5] = torch.nan
    else:
        learner.model.lm_head.weight.register_hook(lambda gradient: gradient * torch.inf)
    before = [parameter.detach().clone() for parameter in learner.model.parameters()]
    with pytest.raises(DivergenceError, match=f"{where}.* in update 1, optimizer step 1; look at ratio_max"):
        learner.step(Batch(ragged_episodes(0), 0))
    for one, other in zip(before, learner.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=0, rtol=0, equal_nan=True)
    assert learner.version == 0


@torch.no_grad()
def logprobs_after(model, temperature) -> dict[int, torch.Tensor]:
    """Log-probabilities (3,) of ids 3, 4 and 6 after each of the prompts' last ids and a forced token."""
    asked = range(7, 12)
    logits = model(input_ids=torch.tensor([[2, last, 20] for last in asked])).logits[:, -1, [3, 4, 6]]
    return dict(zip(asked, torch.log_softmax(logits / temperature, -1), strict=True))


def sample_turn(after, rng, version, temperature) -> Turn:
    """One choice among ids 3, 4 and 6 after a forced token; id 4 pays."""
    prompt = np.array([2, int(rng.integers(7, 12))], np.int32)
    logs = after[int(prompt[1])]
    pick = int(rng.choice(3, p=logs.double().exp().numpy() / logs.double().exp().sum().item()))
    return Turn(
        prompt_ids=prompt,
        completion_ids=np.array([20, [3, 4, 6][pick], 1], np.int32),
        logprobs=np.array([0, float(logs[pick]), 0], np.float32),
        trained_mask=np.array([False, True, False]),
        admissible_ids=np.array([3, 4, 6], np.int32),
        admissible_offsets=np.array([0, 3], np.int32),
        policy_version=version,
        temperature=temperature,
        phase="S1901M",
        reward=float(pick == 1),
        keys={"phase": "S1901M", "segment": "opening"},
    )


@pytest.mark.parametrize("scale", ["group", "batch"])
def test_a_bandit_learns_the_rewarded_token_and_agrees_with_its_sampler(scale):
    model = tiny_model()
    settings = LearnerSettings(learning_rate=2e-3, lr_warmup_updates=2, minibatches=2)
    learner = Learner(model, settings, GroupingSettings(scale_rewards=scale), seed=0)
    rng = np.random.default_rng(1)
    won = []
    for version in range(12):
        after = logprobs_after(model, 0.8)
        episodes = tuple(episode_of((sample_turn(after, rng, version, 0.8),), name=f"b/{index}") for index in range(32))
        won.append(np.mean([episode.turns[0].reward for episode in episodes]))
        metrics = learner.step(Batch(episodes, version)).metrics
        if "fresh_logprob_gap" in metrics:
            assert metrics["fresh_logprob_gap"] < 1e-4
    assert won[0] < 0.7
    assert np.mean(won[-3:]) > 0.95
