"""DAPO's dynamic sampling (arXiv 2503.14476, section 3.2): samples of zero-variance groups are replaced.

The samples of a zero-variance group have advantage 0: their returns are all equal, or there is no baseline yet. DAPO
drops such groups until the batch is full of others. Here the whole batch is kept for groups, baselines and the audit,
because dropping members by their returns would bias coarser groups. Further blocks of the same roles join it, and turns
of zero-variance groups leave the loss: they are in no normaliser, and get no KL penalty or entropy bonus.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from grpo_core.advantages.pipeline import AdvantageBatch
from grpo_core.types import BoolArray

if TYPE_CHECKING:  # it imports torch
    from grpo_core.batching.microbatches import TrainingTurn


def zero_variance_samples(batch: AdvantageBatch) -> BoolArray:
    """True for each sample of a zero-variance group, shape (samples,)."""
    zero_variance = np.zeros(len(batch.samples), np.bool_)
    for group, statistics in zip(batch.groups, batch.group_statistics, strict=True):
        zero_variance[list(group.decided)] = statistics.zero_variance
    return zero_variance


def missing_blocks(batch: AdvantageBatch, wanted: Mapping[str, int], delivered: Mapping[str, int]) -> dict[str, int]:
    """Further blocks of each role that would replace its zero-variance samples; roles that need none are left out.

    A role's ``delivered`` blocks count as ``delivered * (1 - zero-variance fraction of its samples)``; the result is by
    how many whole blocks that falls short of ``wanted``. Further blocks add to ``delivered``, never to ``wanted``.
    """
    samples = Counter(sample.role for sample in batch.samples)
    zero_variance = Counter(
        sample.role for sample, zero in zip(batch.samples, zero_variance_samples(batch), strict=True) if zero
    )
    out = {}
    for role, total in sorted(samples.items()):
        useful = delivered.get(role, 0) * (total - zero_variance[role])
        if (missing := (wanted.get(role, 0) * total - useful) // total) > 0:
            out[role] = missing
    return out


def within_bound(missing: Mapping[str, int], most: int, turn: int) -> dict[str, int]:
    """At most ``most`` of the ``missing`` blocks, given one by one to the role that lacks the most.

    Ties rotate with ``turn``, the number of the update, so that no role is always served first.
    """
    roles = sorted(missing)
    roles = roles[turn % len(roles) :] + roles[: turn % len(roles)] if roles else []
    out: Counter[str] = Counter()
    for _ in range(min(most, sum(missing.values()))):
        out[max(roles, key=lambda role: missing[role] - out[role])] += 1
    return dict(sorted(out.items()))


def drop_zero_variance(turns: Sequence[TrainingTurn], batch: AdvantageBatch) -> tuple[TrainingTurn, ...]:
    """The turns whose group has variance; all turns where no group has any.

    Such an update takes no step for its advantages, and keeps the other terms of the loss.
    """
    zero_variance = zero_variance_samples(batch)[batch.sample_of_turn]
    return tuple(turn for turn in turns if not zero_variance[turn.turn]) or tuple(turns)
