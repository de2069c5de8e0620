"""DAPO's dynamic sampling (arXiv 2503.14476, section 3.2): what says nothing is replaced by further episodes.

A sample is *silent* when the group that judges it has no signal: its returns are all equal, or its running baseline
knows nothing yet. DAPO drops such groups and samples on until the batch is full of others. Here the whole batch stays
together for groups, baselines and the audit (to drop members by their returns would bias coarser groups), further
blocks of the same roles join it, and silent turns leave the loss: they are in no normaliser, and get no KL penalty or
entropy bonus.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from grpo_core.advantages.pipeline import AdvantageBatch
from grpo_core.batching.microbatches import TrainingTurn
from grpo_core.types import BoolArray


def silent_samples(judgement: AdvantageBatch) -> BoolArray:
    """True for each sample whose group has no signal, shape (samples,)."""
    silent = np.zeros(len(judgement.samples), np.bool_)
    for group, signal in zip(judgement.groups, judgement.signals, strict=True):
        silent[list(group.judged)] = signal.zero
    return silent


def missing_blocks(
    judgement: AdvantageBatch, wanted: Mapping[str, int], delivered: Mapping[str, int]
) -> dict[str, int]:
    """Further blocks of each role that would make up for its silent samples; roles that need none are left out.

    A role's ``delivered`` blocks are worth ``delivered * (1 - silent share of its samples)``; it misses as many whole
    blocks as that falls short of those ``wanted``. So nothing is asked for the odd silent turn, and one block for each
    block's worth of them. Topping up adds to ``delivered``, never to ``wanted``.
    """
    samples = Counter(sample.role for sample in judgement.samples)
    silent = Counter(
        sample.role for sample, is_silent in zip(judgement.samples, silent_samples(judgement), strict=True) if is_silent
    )
    out = {}
    for role, total in sorted(samples.items()):
        speaking = delivered.get(role, 0) * (total - silent[role])
        if (missing := (wanted.get(role, 0) * total - speaking) // total) > 0:
            out[role] = missing
    return out


def within_bound(missing: Mapping[str, int], most: int, turn: int) -> dict[str, int]:
    """At most ``most`` of the ``missing`` blocks: one by one to the role that lacks the most.

    Ties go round from update to update (``turn`` is their number), so that no role is always served first.
    """
    roles = sorted(missing)
    roles = roles[turn % len(roles) :] + roles[: turn % len(roles)] if roles else []
    out: Counter[str] = Counter()
    for _ in range(min(most, sum(missing.values()))):
        out[max(roles, key=lambda role: missing[role] - out[role])] += 1
    return dict(sorted(out.items()))


def turns_with_signal(
    turns: Sequence[TrainingTurn], judgement: AdvantageBatch, sample_of_turn: NDArray[np.integer]
) -> tuple[TrainingTurn, ...]:
    """The turns that are left in the loss: those whose sample (``sample_of_turns``, shape (turns,)) is not silent.

    All of them where every one is silent: an update without signal takes no step for it, and keeps its other terms.
    """
    silent = silent_samples(judgement)
    speaking = tuple(turn for turn in turns if not silent[sample_of_turn[turn.turn]])
    return speaking or tuple(turns)
