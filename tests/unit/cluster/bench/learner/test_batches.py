"""The made-up batches of the learner's benchmarks and the plain step."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from cluster.bench.learner import batches
from cluster.bench.learner.batches import VOCABULARY, LearnerSide, padded_batches, plain_step, ragged_episodes
from cluster.bench.models import small_model
from grpo_core.settings import LearnerSettings
from grpo_core.types import Episode


def turns_of(episodes: tuple[Episode, ...]) -> list:
    return [turn for episode in episodes for turn in episode.turns]


def test_larger_vocabulary_spreads_the_ids_and_changes_nothing_else() -> None:
    narrow, wide = ragged_episodes(2), ragged_episodes(2, 3 * VOCABULARY)
    for old, new in zip(turns_of(narrow), turns_of(wide), strict=True):
        assert np.array_equal(new.prompt_ids, 3 * old.prompt_ids)
        assert np.array_equal(new.completion_ids, 3 * old.completion_ids)
        assert np.array_equal(new.admissible_ids, 3 * old.admissible_ids)
        assert np.array_equal(new.admissible_offsets, old.admissible_offsets)
        assert np.array_equal(new.logprobs, old.logprobs)
        assert new.completion_ids.max() < 3 * VOCABULARY


def test_free_turns_have_the_tokens_of_masked_ones() -> None:
    free, masked = (ragged_episodes(2, 800, masked=masked) for masked in (False, True))
    for turn, other in zip(turns_of(free), turns_of(masked), strict=True):
        assert np.array_equal(turn.completion_ids, other.completion_ids)
        assert turn.reward == other.reward
        assert len(turn.admissible_offsets) == 0 < len(other.admissible_offsets)
        assert np.allclose(turn.logprobs[turn.trained_mask], -np.log(800))
        assert not turn.logprobs[~turn.trained_mask].any()


def test_fewer_episodes_are_the_first_ones() -> None:
    for few, many in zip(turns_of(ragged_episodes(1)), turns_of(ragged_episodes(2))[:10], strict=True):
        assert all(
            np.array_equal(getattr(few, field.name), getattr(many, field.name)) for field in dataclasses.fields(few)
        )


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("budget", [300, 100_000])
def test_the_plain_step_makes_the_learners_update(masked: bool, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "TURNS_EACH", 3)
    episodes = ragged_episodes(4, masked=masked, prompt=(20, 40), completion=(5, 20))
    settings = LearnerSettings(
        learning_rate=1e-3, lr_warmup_updates=0, minibatches=1, tokens_per_microbatch=budget, weight_decay=0.0
    )
    ours, theirs = small_model(VOCABULARY), small_model(VOCABULARY)
    learner = LearnerSide(ours, settings).prepared(episodes)
    step = plain_step(theirs, VOCABULARY, settings, episodes)
    for _ in range(2):  # the second loss shows that the first step moved the weights alike
        assert math.isclose(learner()["loss"], step()["loss"], abs_tol=1e-5)


def test_every_turn_weighs_the_same() -> None:
    passes = padded_batches(ragged_episodes(2), 2048)
    assert sum(len(turns) for _, turns in passes) == 20
    assert sum(float(micro.weight_N.sum()) for micro, _ in passes) == pytest.approx(1)
    for micro, turns in passes:
        of_first = torch.zeros(len(turns)).index_add(0, micro.row_N, micro.weight_N)
        assert torch.allclose(of_first, torch.full((len(turns),), 1 / 20))
