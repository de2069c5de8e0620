"""Distributions against torch's own, masks, and what networks begin with."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Categorical, Independent, Normal

from grpo_core.small_networks.distributions import Numbered, Vectors
from grpo_core.small_networks.networks import Critic, SmallPolicy, plain_policy, routed_policy

MAKERS = (plain_policy, routed_policy)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_numbered_actions_are_those_of_a_categorical_over_the_legal_ones() -> None:
    logits = torch.randn(6, 5, generator=generator())
    legal = torch.rand(6, 5, generator=generator(1)) < 0.6
    legal[:, 2] = True
    masked = logits.masked_fill(~legal, -math.inf)
    ours, theirs = Numbered(masked), Categorical(logits=masked)
    actions = ours.sample(generator(2))
    assert legal.gather(1, actions[:, None]).all()
    assert ours.logprobs(actions) == pytest.approx(theirs.log_prob(actions).numpy(), abs=1e-6)
    entropy = [Categorical(logits=row[keep]).entropy() for row, keep in zip(logits, legal, strict=True)]
    assert ours.entropy().tolist() == pytest.approx([float(each) for each in entropy], abs=1e-6)


def test_entropy_under_a_mask_has_finite_gradients() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    Numbered(logits.masked_fill(torch.tensor([[False, False, True]]), -math.inf)).entropy().sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0, 2] == 0


def test_numbered_actions_are_drawn_as_often_as_they_are_probable() -> None:
    logits = torch.tensor([[0.0, 1.0, -1.0]]).expand(20_000, 3)
    drawn = Numbered(logits).sample(generator()).bincount(minlength=3) / 20_000
    assert drawn.tolist() == pytest.approx(logits[0].softmax(0).tolist(), abs=0.02)


def test_vectors_are_independent_normals() -> None:
    mean, log_deviation = torch.randn(7, 3, generator=generator()), torch.tensor([0.1, -1.0, 0.5])
    ours = Vectors(mean, log_deviation)
    theirs = Independent(Normal(mean, log_deviation.exp()), 1)
    actions = ours.sample(generator(1))
    assert ours.logprobs(actions).tolist() == pytest.approx(theirs.log_prob(actions).tolist(), abs=1e-5)
    assert ours.entropy().tolist() == pytest.approx(theirs.entropy().tolist(), abs=1e-5)


@pytest.mark.parametrize("make", MAKERS)
def test_a_policy_begins_close_to_even_odds_and_learns_of_every_weight(make) -> None:
    torch.manual_seed(0)
    policy: SmallPolicy = make(4, 3, are_numbered=True)
    observations = torch.randn(50, 4, generator=generator())
    found = policy(observations)
    assert isinstance(found, Numbered)
    assert (found.logits_NA.softmax(-1) - 1 / 3).abs().max() < 0.05
    found.logprobs(found.sample(generator())).sum().backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in policy.parameters())


@pytest.mark.parametrize("make", MAKERS)
def test_a_policy_of_vectors_begins_with_means_near_zero_and_a_deviation_of_one(make) -> None:
    found = make(4, 2, are_numbered=False)(torch.randn(30, 4, generator=generator()))
    assert isinstance(found, Vectors)
    assert found.mean_NA.abs().max() < 0.1
    assert found.log_deviation_A.tolist() == [0, 0]


def test_rows_do_not_mix() -> None:
    torch.manual_seed(1)
    for network in (plain_policy(4, 3, are_numbered=True), routed_policy(4, 3, are_numbered=True)):
        observations = torch.randn(8, 4, generator=generator())
        whole = network(observations).logits_NA
        alone = torch.cat([network(row[None]).logits_NA for row in observations])
        assert torch.allclose(whole, alone, atol=1e-6)


def test_a_critic_gives_one_number_a_state() -> None:
    assert Critic(4)(torch.zeros(5, 4)).shape == (5,)
