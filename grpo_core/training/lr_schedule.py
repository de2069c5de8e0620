"""The learning rate over the updates of a run."""

from __future__ import annotations

import math

from grpo_core.settings import LearnerSettings


def learning_rate_at(version: int, settings: LearnerSettings) -> float:
    """Return the learning rate of the update after ``version`` updates: a linear warmup, then ``lr_scheduler_type``.

    A run that is resumed with more ``updates`` continues along the longer schedule.
    """
    warmup = settings.lr_warmup_updates
    if version < warmup:
        return settings.learning_rate * (version + 1) / warmup
    progress = min(1.0, (version - warmup) / max(1, settings.updates - warmup))
    match settings.lr_scheduler_type:
        case "constant":
            factor = 1.0
        case "linear":
            factor = 1.0 - progress
        case "cosine":
            factor = (1 + math.cos(math.pi * progress)) / 2
    return settings.learning_rate * factor
