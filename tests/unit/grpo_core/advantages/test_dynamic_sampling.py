"""Which blocks would make up for samples of zero-variance groups, and what is left in the loss."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_core.advantages.dynamic_sampling import (
    drop_zero_variance,
    missing_blocks,
    within_bound,
    zero_variance_samples,
)
from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.batching.microbatches import training_turns
from grpo_core.learner import Learner
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Batch
from tests.unit.grpo_core.support.cases import episode_of, ragged_turn, tiny_model

EPISODES = LearnerSettings(returns="episode")
BY_BLOCK = GroupingSettings(keys=("country+lineup",), min_group_size=2, baseline="mean")


def block(role, rewards, name, turns=1):
    """One line-up block: an episode for each reward."""
    rng = np.random.default_rng(len(rewards))
    out = []
    for member, reward in enumerate(rewards):
        episode = episode_of(
            tuple(ragged_turn(rng) for _ in range(turns)), role=role, name=f"{name}/{member}", reward=reward
        )
        out.append(dataclasses.replace(episode, keys={"country": role, "lineup": name}))
    return out


def advantages_of(episodes, learner=EPISODES, grouping=BY_BLOCK):
    return compute_advantages(episodes, learner, grouping, {})


def test_one_zero_variance_block_is_replaced_by_one_block():
    episodes = block("FRANCE", [1.0, 1.0, 1.0, 1.0], "a") + block("FRANCE", [0.0, 1.0, 2.0, 0.0], "b")
    episodes += block("TURKEY", [2.0, 2.0, 2.0, 3.0], "c")
    computed = advantages_of(episodes)
    assert zero_variance_samples(computed).tolist() == [True] * 4 + [False] * 8
    quota = {"FRANCE": 2, "TURKEY": 1}
    assert missing_blocks(computed, quota, quota) == {"FRANCE": 1}


def test_replacement_blocks_join_all_groups_and_may_have_zero_variance_themselves():
    episodes = block("FRANCE", [1.0] * 4, "a") + block("FRANCE", [5.0] * 4, "b")
    quota = {"FRANCE": 1}
    assert missing_blocks(advantages_of(episodes[:4]), quota, quota) == {"FRANCE": 1}
    assert missing_blocks(advantages_of(episodes), quota, {"FRANCE": 2}) == {"FRANCE": 1}
    with_signal = episodes + block("FRANCE", [1.0, 2.0, 3.0, 4.0], "c")
    assert missing_blocks(advantages_of(with_signal), quota, {"FRANCE": 3}) == {}
    # Grouped by country alone, two blocks of equal returns each make one group with variance.
    coarse = GroupingSettings(keys=("country",), min_group_size=2)
    assert missing_blocks(advantages_of(episodes, grouping=coarse), quota, {"FRANCE": 2}) == {}


def test_an_exactly_average_sample_is_not_zero_variance():
    computed = advantages_of(block("FRANCE", [1.0, 2.0, 3.0], "a"))
    assert computed.advantages[1] == 0
    assert not zero_variance_samples(computed).any()


def test_samples_without_any_baseline_count_as_zero_variance():
    computed = advantages_of(block("FRANCE", [1.0, 2.0], "a"), grouping=GroupingSettings(keys=("country",)))
    assert zero_variance_samples(computed).all()
    assert missing_blocks(computed, {"FRANCE": 1}, {"FRANCE": 1}) == {"FRANCE": 1}


def test_zero_variance_turns_ask_for_a_block_once_they_add_up_to_one():
    grouping = GroupingSettings(keys=("country+phase",), min_group_size=2)
    learner = LearnerSettings(returns="per_phase", discount=0.5)

    def episodes(zero_variance):
        rng = np.random.default_rng(0)
        return [
            episode_of(
                tuple(
                    ragged_turn(
                        rng,
                        reward=0.0 if phase < zero_variance else float(member),
                        elapsed_phases=1000,  # so that no reward reaches the turns before
                        keys={"phase": f"p{phase}"},
                    )
                    for phase in range(8)
                ),
                name=f"b/{member}",
            )
            for member in range(4)
        ]

    quota = {"FRANCE": 4}
    asked = [
        missing_blocks(advantages_of(episodes(k), learner, grouping), quota, quota).get("FRANCE", 0) for k in range(9)
    ]
    assert asked == [0, 0, 1, 1, 2, 2, 3, 3, 4]


@given(
    missing=st.dictionaries(st.sampled_from(("AUSTRIA", "FRANCE", "TURKEY")), st.integers(1, 9)),
    most=st.integers(0, 30),
    turn=st.integers(0, 9),
)
def test_requests_use_the_whole_bound_and_serve_the_largest_lack_first(missing, most, turn):
    asked = within_bound(missing, most, turn)
    assert sum(asked.values()) == min(most, sum(missing.values()))
    assert all(0 < count <= missing[role] for role, count in asked.items())
    left = {role: missing[role] - asked.get(role, 0) for role in missing}
    for role in asked:  # no role was served while another lacked more
        assert left[role] + 1 >= max(left.values())


def test_equal_lacks_are_served_in_rotation():
    missing = {"AUSTRIA": 1, "FRANCE": 1, "TURKEY": 1}
    served = Counter(role for turn in range(6) for role in within_bound(missing, 1, turn))
    assert served == {"AUSTRIA": 2, "FRANCE": 2, "TURKEY": 2}


@pytest.mark.parametrize("returns", ["episode", "per_phase"])
def test_zero_variance_turns_leave_the_loss_unless_all_turns_have_zero_variance(returns):
    learner = LearnerSettings(returns=returns)
    constant = block("FRANCE", [1.0] * 3, "a", turns=2)
    varied = block("TURKEY", [1.0, 2.0, 3.0], "b", turns=2)
    if returns == "per_phase":
        constant = [
            dataclasses.replace(
                episode, turns=tuple(dataclasses.replace(turn, reward=0.0, elapsed_phases=1) for turn in episode.turns)
            )
            for episode in constant
        ]

    def left(episodes):
        turns = training_turns(episodes, 0)
        kept = drop_zero_variance(turns, advantages_of(episodes, learner))
        return [turn.turn for turn in kept]

    assert left([*constant, *varied]) == list(range(6, 12))
    assert left([*varied, *constant]) == list(range(6))
    assert left(constant) == list(range(6))


@pytest.mark.parametrize("normalizer", ["turn", "token", "batch_token", "episode"])
def test_replaced_samples_are_counted_and_do_not_dilute_the_update(normalizer):
    constant, varied = block("FRANCE", [1.0] * 4, "a", turns=2), block("TURKEY", [1.0, 2.0, 4.0], "b", turns=2)

    def made(episodes, top_up):
        settings = LearnerSettings(
            returns="episode", normalizer=normalizer, minibatches=1, top_up_episodes=top_up, lr_warmup_updates=0
        )
        grouping = BY_BLOCK.model_copy(update={"scale_rewards": "none"})
        learner = Learner(tiny_model(), settings, grouping, seed=0)
        result = learner.step(Batch(tuple(episodes), 0))
        return result, learner

    alone, _ = made(varied, 0)
    diluted, _ = made(constant + varied, 0)
    topped, learner = made(constant + varied, 8)
    assert topped.audit["steps"][0]["grad_norm"] == pytest.approx(alone.audit["steps"][0]["grad_norm"], rel=1e-5)
    assert diluted.audit["steps"][0]["grad_norm"] < 0.75 * topped.audit["steps"][0]["grad_norm"]
    assert topped.metrics["zero_variance_fraction"] == 4 / 7
    assert set(learner.baselines) == {"FRANCE", "TURKEY"}  # replaced samples still enter the running baselines
    assert made(constant, 8)[0].metrics["optimizer_steps"] == 0
