"""Updates of small policies: the gradient against one written out by hand, and what learning is for."""

import copy

import numpy as np
import pytest
import torch

from grpo_core.errors import DivergenceError
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.small_networks.learner import SmallBatch, SmallLearner
from grpo_core.small_networks.networks import Critic, plain_policy
from grpo_core.types import Episode
from tests.unit.grpo_core.support.cases import episode_of, ragged_turn

PLAIN = {"learning_rate": 1e-2, "lr_warmup_updates": 0, "minibatches": 1, "epochs": 1, "max_grad_norm": 1e9}
ROLE = {"role_name": "seat", "weight_key": "seat", "surgery_key": "seat"}
SEAT = GroupingSettings(keys=("seat",), scale_rewards="none", min_group_size=2, **ROLE)


def batch_of(policy, lengths=(3, 2, 4, 3), seed=0, reward=None, legal=None):
    """Episodes of random states, in which each step earns what ``reward`` (states, actions) says of it."""
    draw, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    count = sum(lengths)
    seen = torch.from_numpy(draw.normal(size=(count, 3)).astype(np.float32))
    with torch.no_grad():
        found = policy(seen, legal)
        actions = found.sample(generator)
        logprobs = found.logprobs(actions)
    earned = draw.normal(size=count) if reward is None else reward(seen, actions).numpy()
    episodes, start = [], 0
    for number, length in enumerate(lengths):
        turns = tuple(_turn(float(value)) for value in earned[start : start + length])
        plain = episode_of(turns, role="PLAYER", name=f"b/{number}", reward=float(earned[start : start + length].sum()))
        fields = {name: getattr(plain, name) for name in Episode.__dataclass_fields__}
        episodes.append(Episode(**{**fields, "keys": {"variant": number % 2}}))
        start += length
    last = torch.from_numpy(draw.normal(size=(len(lengths), 3)).astype(np.float32))
    return SmallBatch(
        tuple(episodes), seen, legal, actions, logprobs, last, torch.zeros(len(lengths), dtype=torch.bool)
    )


def _turn(reward):
    turn = ragged_turn(np.random.default_rng(0))
    fields = {name: getattr(turn, name) for name in type(turn).__dataclass_fields__}
    return type(turn)(**{**fields, "reward": reward, "elapsed_phases": 1, "keys": {"phase": 0}})


def policy_of(seed=0):
    torch.manual_seed(seed)
    return plain_policy(3, 4, are_numbered=True, hidden=(8,))


def test_the_first_step_is_along_the_gradient_written_out_by_hand():
    policy = policy_of()
    batch = batch_of(policy)
    twin = copy.deepcopy(policy)
    SmallLearner(policy, LearnerSettings(returns="episode", **PLAIN), SEAT, 0).step(batch)
    returns = torch.tensor([episode.reward for episode in batch.episodes])
    lengths = torch.tensor([len(episode.turns) for episode in batch.episodes])
    advantages = (returns - returns.mean()).repeat_interleave(lengths)
    loss = -(twin(batch.observations_ND).logprobs(batch.actions) * advantages).mean()
    loss.backward()
    optimizer = torch.optim.Adam(twin.parameters(), lr=1e-2, betas=(0.9, LearnerSettings().adam_beta2), eps=1e-5)
    optimizer.step()
    for ours, theirs in zip(policy.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("surgery", ["none", "pcgrad", "cagrad"])
@pytest.mark.parametrize("with_critic", [False, True])
def test_it_learns_which_action_pays(surgery, with_critic):
    policy = policy_of()
    grouping = GroupingSettings(
        keys=("seat+variant", "seat"), role_name="seat", weight_key="seat", surgery_key="seat+variant",
        gradient_surgery=surgery,
    )  # fmt: skip
    settings = LearnerSettings(learning_rate=2e-2, lr_warmup_updates=0, minibatches=2, epochs=2, discount=0.5)
    torch.manual_seed(1)
    learner = SmallLearner(policy, settings, grouping, 0, critic=Critic(3, (8,)) if with_critic else None)
    for update in range(40):
        batch = batch_of(policy, (4,) * 16, update, lambda _, actions: (actions == 2).float())
        found = learner.step(batch)
    with torch.no_grad():
        share = policy(batch.observations_ND).logprobs(torch.full((64,), 2)).exp().mean()
    assert float(share) > 0.8
    assert found.entropy < 1.0
    assert learner.version == 40
    assert found.audit(40, settings)["keys"] == ["seat+variant", "seat"]


def test_a_trace_has_the_first_episodes_steps_and_their_losses():
    policy = policy_of()
    batch = batch_of(policy)
    settings = LearnerSettings(returns="episode", **{**PLAIN, "minibatches": 2, "epochs": 2})
    update = SmallLearner(policy, settings, SEAT, 0).step(batch, 6)
    columns = update.trace.columns
    assert [turn["turn"] for turn in columns["tokens"]] == [0, 1, 2, 3, 4]  # of two whole episodes
    assert columns["turns"]["trained"] == [1] * 12
    assert all(len(steps) == 2 for steps in columns["turns"]["steps"])  # one an epoch
    assert columns["tokens"][0]["words"] == [f"action {int(batch.actions[0])}"]
    for turn in columns["tokens"]:
        assert [each["step"] for each in turn["passes"]] == columns["turns"]["steps"][turn["turn"]]
        first, old = turn["passes"][0], turn["behaviour"][0]
        if first["step"] == 0:  # nothing had changed yet
            assert first["logprobs"][0] == pytest.approx(old, abs=1e-6)
    whole = SmallLearner(policy_of(), settings, SEAT, 0).step(batch_of(policy_of()), 100).trace.columns
    losses = [0.0] * 4
    for turn in whole["tokens"]:
        for each in turn["passes"]:
            ratio = np.exp(each["logprobs"][0] - turn["behaviour"][0])
            bounded = np.clip(ratio, 1 - settings.epsilon, 1 + settings.epsilon_high)
            losses[each["step"]] -= each["weight"] * min(ratio * each["advantage"], bounded * each["advantage"])
    steps = SmallLearner(policy_of(), settings, SEAT, 0).step(batch_of(policy_of())).steps
    assert losses == pytest.approx([step.loss for step in steps], abs=1e-5)


def test_an_update_with_a_critic_has_no_trace():
    policy = policy_of()
    settings = LearnerSettings(returns="per_phase", **PLAIN)
    assert SmallLearner(policy, settings, SEAT, 0, critic=Critic(3)).step(batch_of(policy), 6).trace is None


def test_a_critic_learns_the_returns():
    policy, settings = policy_of(), LearnerSettings(learning_rate=1e-2, lr_warmup_updates=0, epochs=4, discount=0.9)
    critic = Critic(3, (16,))
    learner = SmallLearner(policy, settings, SEAT, 0, critic=critic, gae_lambda=1.0)
    for update in range(150):
        batch = batch_of(policy, (1,) * 64, update, lambda seen, _: 2 * seen[:, 0] + 1)
        learner.step(batch)
    with torch.no_grad():
        errors = critic(batch.observations_ND) - (2 * batch.observations_ND[:, 0] + 1)
    assert float(errors.abs().mean()) < 0.4


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_the_critics_gradient_takes_nothing_from_the_policys(scale):
    policy, rate = policy_of(), 1e-2
    before = copy.deepcopy(policy)
    settings = LearnerSettings(**{**PLAIN, "learning_rate": rate, "max_grad_norm": 0.5})
    grouping = GroupingSettings(keys=("seat",), scale_rewards="group", min_group_size=2, **ROLE)
    batch = batch_of(policy, reward=lambda _, actions: scale * (actions == 2).float())
    SmallLearner(policy, settings, grouping, 0, critic=Critic(3, (8,))).step(batch)
    moved = [float((new - old).abs().max()) for new, old in zip(policy.parameters(), before.parameters(), strict=True)]
    assert max(moved) == pytest.approx(rate, rel=0.05), "the first step of Adam, unless the gradient has vanished"


def test_an_illegal_action_stays_impossible():
    policy = policy_of()
    legal = torch.ones(12, 4, dtype=torch.bool)
    legal[:, 2] = False
    batch = batch_of(policy, legal=legal)
    assert not (batch.actions == 2).any()
    SmallLearner(policy, LearnerSettings(returns="episode", **PLAIN), SEAT, 0).step(batch)
    assert torch.isfinite(torch.cat([each.reshape(-1) for each in policy.parameters()])).all()
    assert policy(batch.observations_ND, legal).logprobs(torch.full((12,), 2)).eq(-torch.inf).all()


def test_what_cannot_be_is_refused():
    policy = policy_of()
    with pytest.raises(ValueError, match="per_phase"):
        SmallLearner(policy, LearnerSettings(returns="episode"), SEAT, 0, critic=Critic(3))
    with pytest.raises(ValueError, match="no reference"):
        SmallLearner(policy, LearnerSettings(beta=0.1), SEAT, 0)
    for left_out in ({"top_advantage_quantile": 0.5}, {"top_up_episodes": 8}):
        with pytest.raises(ValueError, match="all steps"):
            SmallLearner(policy, LearnerSettings(**left_out), SEAT, 0)
    learner = SmallLearner(policy, LearnerSettings(**PLAIN), SEAT, 0)
    with pytest.raises(ValueError, match="no episodes"):
        learner.step(
            SmallBatch((), torch.zeros(0, 3), None, torch.zeros(0), torch.zeros(0), torch.zeros(0, 3), torch.zeros(0))
        )
    batch = batch_of(policy)
    with torch.no_grad():
        policy.head.weight.fill_(torch.nan)
    with pytest.raises(DivergenceError):
        learner.step(batch)
