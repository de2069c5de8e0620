"""What each optimizer step of an epoch learns from: shares of the turns, of each specialist's role by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from grpo_core.batching.microbatches import TrainingTurn, minibatch_shares
from grpo_core.batching.token_weights import turn_token_weights
from grpo_core.settings import LearnerSettings
from grpo_core.types import FloatArray

Part = tuple[str | None, Sequence[TrainingTurn]]
"""A specialist's role and its turns of a batch; None: one policy for all roles, and all turns."""


@dataclass(frozen=True, slots=True, eq=False)
class Minibatch:
    """Turns of one optimizer step that are learned from under one adapter, normalised among themselves."""

    role: str | None  # of the specialist; None: there is one policy
    turns: Sequence[TrainingTurn]
    advantages: FloatArray  # (turns,)
    weights: NDArray[np.float64]  # (turns,) of each of its tokens in the loss
    learns: Sequence[int]  # indices of the turns that have a gradient


def optimizer_steps(
    parts: Sequence[Part], turn_advantages: FloatArray, settings: LearnerSettings, generator: np.random.Generator
) -> Iterator[list[Minibatch]]:
    """One epoch: the shares of each step, one a part, as long as a part has turns left.

    Each part is drawn into ``minibatches`` shares of its own, so that a specialist takes as many steps as one alone
    would.

    Args:
        parts: roles and turns.
        turn_advantages: by turn of the batch.
        settings: ``minibatches`` and the normaliser.
        generator: of the draw, part by part.
    """
    drawn = []
    for role, turns in parts:
        tokens = sum(len(turn.position_S) for turn in turns)
        splits = minibatch_shares(turns, settings.named_normalizer, settings.minibatches, generator)
        picked = [[turns[index] for index in split] for split in splits]
        drawn.append([_share(role, own, turn_advantages, settings, tokens / len(splits)) for own in picked])
    for step in zip_longest(*drawn):
        yield [share for share in step if share is not None]


def learning_turns(advantages: FloatArray, settings: LearnerSettings) -> list[int]:
    """Indices of the turns that have a gradient: those with an advantage, or all where the loss has other parts."""
    always = settings.entropy_coef > 0 or settings.beta > 0
    indices: list[int] = np.flatnonzero((advantages != 0) | always).tolist()
    return indices


def _share(
    role: str | None,
    turns: Sequence[TrainingTurn],
    turn_advantages: FloatArray,
    settings: LearnerSettings,
    batch_tokens_per_step: float,
) -> Minibatch:
    weights = turn_token_weights(
        settings.named_normalizer,
        [len(turn.position_S) for turn in turns],
        [turn.episode for turn in turns],
        max_completion_length=settings.max_completion_length,
        batch_tokens_per_step=batch_tokens_per_step,
    )
    advantages = turn_advantages[[turn.turn for turn in turns]]
    return Minibatch(role, turns, advantages, weights, learning_turns(advantages, settings))
