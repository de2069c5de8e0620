"""Traces of updates: they hold what the update learned from, so that its loss can be computed again."""

import json

import numpy as np
import pytest
import torch

from grpo_core.batching.microbatches import training_turns
from grpo_core.learner import Learner
from grpo_core.losses.policy_loss import LossTokens, token_losses
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.traces.token_trace import turns_to_trace
from grpo_core.traces.update_trace import shortest
from grpo_core.types import Batch
from tests.unit.grpo_core.support.cases import episode_of, ragged_episodes, ragged_turn, tiny_model

GROUPING = GroupingSettings(keys=("country",), min_group_size=2)


def traced(learner_settings=None, grouping=GROUPING, tokens=10_000, seed=0, **facts):
    settings = learner_settings or LearnerSettings(minibatches=2)
    reference = tiny_model(seed=9) if settings.beta > 0 else None
    learner = Learner(tiny_model(), settings, grouping, 0, reference=reference)
    batch = Batch(ragged_episodes(seed, **facts), 0)
    return batch, settings, learner.step(batch, tokens)


def test_an_update_without_a_request_leaves_no_trace():
    learner = Learner(tiny_model(), LearnerSettings(), GROUPING, 0)
    assert learner.step(Batch(ragged_episodes(0), 0)).trace is None


def test_asking_for_a_trace_changes_nothing_else():
    plain, seen = (Learner(tiny_model(), LearnerSettings(minibatches=2), GROUPING, 0) for _ in range(2))
    for version in range(2):
        batch = Batch(ragged_episodes(version), version)
        assert plain.step(batch).audit["steps"] == seen.step(batch, 50).audit["steps"]
    for left, right in zip(plain.model.parameters(), seen.model.parameters(), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize(
    "settings",
    [
        LearnerSettings(minibatches=2),
        LearnerSettings(minibatches=1, loss_type="dapo", entropy_coef=0.01),
        LearnerSettings(minibatches=2, epochs=2, decoupled=True, beta=0.1),
        LearnerSettings(minibatches=3, loss_type="cispo", epsilon_high=2.0),
    ],
)
def test_the_loss_of_every_step_is_in_the_trace(settings):
    _, _, result = traced(settings)
    columns = json.loads(json.dumps(result.trace.columns, allow_nan=False))
    losses = dict.fromkeys(range(len(result.audit["steps"])), 0.0)
    for turn in columns["tokens"]:
        for each in turn["passes"]:
            count = len(each["logprobs"])
            tokens = LossTokens(
                logprobs_N=torch.tensor(each["logprobs"]),
                entropy_N=torch.tensor(each["entropy"]),
                behaviour_N=torch.tensor(turn["behaviour"]),
                advantages_N=torch.full((count,), each["advantage"]),
                row_N=torch.zeros(count, dtype=torch.int64),
                rows=1,
                proximal_N=torch.tensor(each["proximal"]) if "proximal" in each else None,
                reference_N=torch.tensor(each["reference"]) if "reference" in each else None,
            )
            losses[each["step"]] += each["weight"] * float(token_losses(tokens, settings).loss_N.sum())
    for step, record in enumerate(result.audit["steps"]):
        assert losses[step] == pytest.approx(record["loss"] or 0.0, abs=1e-5)


def test_columns_are_the_batch_and_what_was_known_before():
    batch, _, result = traced()
    columns = result.trace.columns
    turns = [turn for episode in batch.episodes for turn in episode.turns]
    assert columns["episodes"]["id"] == [episode.episode_id for episode in batch.episodes]
    assert columns["episodes"]["turns"] == [len(episode.turns) for episode in batch.episodes]
    assert columns["turns"]["reward"] == [turn.reward for turn in turns]
    assert columns["turns"]["trained"] == [int(turn.trained_mask.sum()) for turn in turns]
    assert columns["running"] == {}  # the first update knows no past
    assert np.array_equal(np.array(columns["returns"], np.float32), result.advantages.returns)
    assert np.array_equal(np.array(columns["advantages"], np.float32), result.advantages.advantages)
    # Every turn with trained tokens has one step an epoch, and the others none.
    assert [len(steps) for steps in columns["turns"]["steps"]] == [int(turn.trained_mask.any()) for turn in turns]


def test_tokens_are_those_of_whole_episodes_within_the_limit():
    episodes = tuple(
        episode_of(tuple(ragged_turn(np.random.default_rng(10 * index + place)) for place in range(3)),
                   name=f"b{index // 2}/{index}")
        for index in range(8)
    )  # fmt: skip
    turns = training_turns(episodes, 0)
    tokens = {turn.turn: len(turn.position_S) for turn in turns}
    for limit in (0, 20, 60, 10_000):
        for first in range(5):
            chosen = turns_to_trace(episodes, turns, limit, first)
            assert sum(tokens[turn] for turn in chosen) <= limit
            assert {turn // 3 for turn in chosen} == {turn // 3 for turn in chosen if turn % 3 == 0}
            if chosen:
                assert first % 4 in {turn // 6 for turn in chosen}  # the block that comes first
    assert len(turns_to_trace(episodes, turns, 10_000, 2)) == len(turns)


def test_the_shortest_decimals_give_every_float32_again():
    random = np.random.default_rng(0)
    values = (random.normal(size=1000) * 10.0 ** random.integers(-20, 20, 1000)).astype(np.float32)
    assert np.array_equal(np.array(shortest(values), np.float32), values)
    assert shortest([float("nan"), 0.1]) == [None, 0.1]


def test_clusters_are_facts_of_episodes():
    grouping = GroupingSettings(keys=("country+auto", "country"), min_group_size=2, cluster_features=("size",))
    batch = Batch(tuple(_with_size(episode, index) for index, episode in enumerate(ragged_episodes(1))), 0)
    learner = Learner(tiny_model(), LearnerSettings(returns="episode"), grouping, 0)
    columns = learner.step(batch, 0).trace.columns
    labels = [sample.facts["auto"] for sample in learner_samples(learner, batch)]
    assert columns["episodes"]["facts"]["auto"] == labels
    assert columns["tokens"] == []


def learner_samples(learner, batch):
    from grpo_core.advantages.pipeline import compute_advantages

    return compute_advantages(batch.episodes, learner.settings, learner.grouping, {}).samples


def _with_size(episode, size):
    from dataclasses import replace

    return replace(episode, keys={**episode.keys, "size": size % 5})
