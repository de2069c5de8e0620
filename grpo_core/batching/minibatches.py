"""The minibatches of an epoch's optimizer steps, separate for each role that has its own adapter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from grpo_core.batching.microbatches import TrainingTurn, split_minibatches
from grpo_core.batching.token_weights import turn_token_weights
from grpo_core.settings import LearnerSettings
from grpo_core.types import FloatArray

RoleTurns = tuple[str | None, Sequence[TrainingTurn]]
"""A role with its own adapter and its turns of a batch; None: one policy for all roles, and all turns."""


@dataclass(frozen=True, slots=True, eq=False)
class Minibatch:
    """Turns of one optimizer step under one adapter; their token weights are normalised among themselves."""

    role: str | None  # the role whose adapter is trained; None: there is one policy
    turns: Sequence[TrainingTurn]
    advantages: FloatArray  # (turns,)
    weights: NDArray[np.float64]  # (turns,) each of the turn's tokens has this weight in the loss
    learns: Sequence[int]  # indices of the turns that have a gradient


def optimizer_steps(
    by_role: Sequence[RoleTurns], turn_advantages: FloatArray, settings: LearnerSettings, generator: np.random.Generator
) -> Iterator[list[Minibatch]]:
    """Yield each step's minibatches of one epoch, one for each role that has turns left.

    Each role's turns are split into ``minibatches`` separately, so its adapter takes as many steps as one alone would.
    ``turn_advantages`` are by turn of the batch.
    """
    drawn = []
    for role, turns in by_role:
        tokens = sum(len(turn.position_S) for turn in turns)
        splits = split_minibatches(turns, settings.named_normalizer, settings.minibatches, generator)
        picked = [[turns[index] for index in split] for split in splits]
        drawn.append([_minibatch(role, own, turn_advantages, settings, tokens / len(splits)) for own in picked])
    for step in zip_longest(*drawn):
        yield [minibatch for minibatch in step if minibatch is not None]


def learning_turns(advantages: FloatArray, settings: LearnerSettings) -> list[int]:
    """Return indices of the turns that have a gradient: those with an advantage, or all if the loss has other parts."""
    always = settings.entropy_coef > 0 or settings.beta > 0
    indices: list[int] = np.flatnonzero((advantages != 0) | always).tolist()
    return indices


def largest(advantages: FloatArray, share: float) -> FloatArray:
    """Return the advantages with all but the largest set to 0: of the (turns,) values, ``share`` stay, rounded up.

    Size counts either way; of equal ones the first stay. With a share of 1 all stay. For normally distributed
    advantages the half that stays has 93 % of their squares' sum, so nearly all of the signal. Choosing samples by
    their spread is proposed for whole rollouts by Xu et al., https://arxiv.org/abs/2504.13818.
    """
    kept = math.ceil(share * len(advantages))
    order = np.argsort(-np.abs(advantages), kind="stable")[:kept]
    out = np.zeros_like(advantages)
    out[order] = advantages[order]
    return out


def _minibatch(
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
