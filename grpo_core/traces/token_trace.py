"""Probabilities of single tokens in an update's forward passes, for a few turns of the batch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from torch import Tensor

from grpo_core.batching.microbatches import TrainingTurn
from grpo_core.losses.policy_loss import LossTokens
from grpo_core.types import Episode


@dataclass(frozen=True, slots=True)
class TurnPass:
    """One turn in one forward pass that had a gradient; the tuples have one number for each trained token (S,)."""

    step: int  # the optimizer step, from 0
    weight: float  # of each of its tokens in the minibatch's loss
    advantage: float
    logprobs: tuple[float, ...]  # of the weights at that step
    entropy: tuple[float, ...]  # nats, over the admissible ids
    proximal: tuple[float, ...] | None  # of the weights at the update's start; None: the loss does not use them
    reference: tuple[float, ...] | None  # None: there is no KL penalty


class TokenTrace:
    """Collects the passes of the chosen turns."""

    def __init__(self, turns: Collection[int] = ()) -> None:
        """``turns`` are indices into the batch's turns."""
        self.turns = frozenset(turns)
        self.passes: dict[int, list[TurnPass]] = {}

    def add(self, step: int, turns: Sequence[int], weight_N: Tensor, tokens: LossTokens) -> None:
        """Add what a pass over these turns, the rows of ``tokens``, says of the chosen ones."""
        for row, turn in enumerate(turns):
            if turn not in self.turns:
                continue
            own = tokens.row_N == row
            self.passes.setdefault(turn, []).append(
                TurnPass(
                    step=step,
                    weight=float(weight_N[own][0]),
                    advantage=float(tokens.advantages_N[own][0]),
                    logprobs=_numbers(tokens.logprobs_N[own]),
                    entropy=_numbers(tokens.entropy_N[own]),
                    proximal=None if tokens.proximal_N is None else _numbers(tokens.proximal_N[own]),
                    reference=None if tokens.reference_N is None else _numbers(tokens.reference_N[own]),
                )
            )


def _numbers(values: Tensor) -> tuple[float, ...]:
    return tuple(values.detach().float().tolist())


def turns_to_trace(
    episodes: Sequence[Episode], turns: Sequence[TrainingTurn], most_tokens: int, first: int
) -> frozenset[int]:
    """Choose the turns of whole blocks, so that episodes that were compared are seen together.

    Blocks are taken in turn from number ``first`` on, until ``most_tokens`` trained tokens are reached; an episode that
    does not fit is left out, and so are those after it.
    """
    tokens = dict.fromkeys(range(len(episodes)), 0)
    members: dict[int, list[int]] = {index: [] for index in tokens}
    for turn in turns:
        tokens[turn.episode] += len(turn.position_S)
        members[turn.episode].append(turn.turn)
    blocks: dict[str, list[int]] = {}
    for index, episode in enumerate(episodes):
        blocks.setdefault(episode.block_id, []).append(index)
    names = list(blocks)
    start = first % max(len(names), 1)
    chosen: list[int] = []
    for index in (each for name in names[start:] + names[:start] for each in blocks[name]):
        most_tokens -= tokens[index]
        if most_tokens < 0:
            break
        chosen += members[index]
    return frozenset(chosen)
