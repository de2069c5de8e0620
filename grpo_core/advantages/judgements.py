"""How a batch judged each sample: its return, the baseline it was compared with, its advantage and its group."""

from __future__ import annotations

import math
from dataclasses import dataclass

from grpo_core.advantages.pipeline import AdvantageBatch
from grpo_core.types import KeyValue


@dataclass(frozen=True, slots=True)
class SampleJudgement:
    """Why a sample got its advantage."""

    value: float  # the return
    baseline: float | None  # None: the role's running baseline was unknown, and the advantage is 0
    advantage: float  # group weight included
    level: str  # the key expression of the deciding group, or "running"
    key: tuple[KeyValue, ...]  # the group's values of that expression; at the running level the role
    size: int  # members of the group
    std: float | None  # of its returns; None: unknown
    zero_variance: bool  # the advantage is 0 because all returns were equal, or no other episode is in the group


def sample_judgements(found: AdvantageBatch) -> list[SampleJudgement]:
    """Return the judgement of every sample, in the samples' order."""
    judged: dict[int, SampleJudgement] = {}
    for group, statistics in zip(found.groups, found.group_statistics, strict=True):
        for sample, baseline in zip(group.decided, statistics.baselines, strict=True):
            judged[sample] = SampleJudgement(
                value=float(found.returns[sample]),
                baseline=_finite(baseline),
                advantage=float(found.advantages[sample]),
                level=group.level,
                key=group.key,
                size=len(group.members),
                std=_finite(statistics.std),
                zero_variance=statistics.zero_variance,
            )
    return [judged[sample] for sample in range(len(found.samples))]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
