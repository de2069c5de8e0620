"""Only the turns of large advantage are trained, if a share of the turns is to be."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from grpo_core.batching.minibatches import largest
from grpo_core.learner import Learner
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Batch
from tests.unit.grpo_core.support.cases import ragged_episodes, tiny_model

FLOATS = st.floats(-10, 10, width=32)


@given(arrays(np.float32, st.integers(0, 30), elements=FLOATS), st.floats(0.01, 1))
def test_the_largest_stay_and_the_others_are_zero(advantages: np.ndarray, share: float) -> None:
    before = advantages.copy()
    kept = largest(advantages, share)
    assert (advantages == before).all()
    chosen = [index for index in range(len(advantages)) if kept[index] != 0]
    assert all(kept[index] == advantages[index] for index in chosen)
    smallest = min((abs(advantages[index]) for index in chosen), default=0)
    dropped = [index for index in range(len(advantages)) if kept[index] == 0 and advantages[index] != 0]
    assert all(abs(advantages[index]) <= smallest for index in dropped)
    assert len(chosen) <= int(np.ceil(share * len(advantages)))
    if dropped:  # there were enough to fill the share
        assert len(chosen) == int(np.ceil(share * len(advantages)))


def test_half_of_normal_advantages_carry_most_of_their_squares() -> None:
    advantages = np.random.default_rng(1).normal(size=100_000).astype(np.float32)
    share = float((largest(advantages, 0.5) ** 2).sum() / (advantages**2).sum())
    assert share == pytest.approx(0.929, abs=0.005)


@pytest.mark.parametrize("decoupled", [False, True])
def test_a_learner_passes_only_the_share_of_its_turns(decoupled: bool) -> None:
    grouping = GroupingSettings(keys=("country",), min_group_size=2)
    episodes = ragged_episodes(5, count=12)
    found = {}
    for share in (1.0, 0.25):
        settings = LearnerSettings(top_advantage_quantile=share, decoupled=decoupled, minibatches=2)
        learner = Learner(copy.deepcopy(tiny_model(seed=3)), settings, grouping, seed=0)
        found[share] = (learner.step(Batch(episodes=episodes, learner_version=0)), learner.model)
    whole, part = found[1.0][0].metrics, found[0.25][0].metrics
    assert part["trained_tokens"] == whole["trained_tokens"]  # the normaliser counts all of them
    assert part["tokens_per_second"] * part["seconds"] < 0.6 * whole["tokens_per_second"] * whole["seconds"]
    assert part["grad_norm"] > 0
    changed = [
        not torch.equal(one, other)
        for one, other in zip(found[1.0][1].parameters(), found[0.25][1].parameters(), strict=True)
    ]
    assert any(changed)
