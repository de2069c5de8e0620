"""A batch judged: samples -> returns -> groups -> advantages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from grpo_core.advantages import GroupSignal, RunningBaseline, group_advantages
from grpo_core.errors import DivergenceError
from grpo_core.grouping import Sample, groups_of, levels_of, samples_of
from grpo_core.returns import sample_returns
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.shrinkage import shrunk_levels
from grpo_core.types import Episode, FloatArray, Group


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """A batch's samples, their returns, groups and advantages."""

    samples: tuple[Sample, ...]
    returns: FloatArray  # (samples,)
    groups: tuple[Group, ...]
    signals: tuple[GroupSignal, ...]  # one a group
    advantages: FloatArray  # (samples,)
    turn_advantages: FloatArray  # (turns,) in episode order


def judge(
    episodes: Sequence[Episode],
    learner: LearnerSettings,
    grouping: GroupingSettings,
    running: Mapping[str, RunningBaseline],
) -> Judgement:
    """Advantages of all samples of the episodes; ``running`` are the roles' baselines before this batch.

    Raises:
        GroupingError: a sample lacks a fact of a key expression.
        DivergenceError: a return is not finite.
    """
    samples = samples_of(episodes, learner.returns)
    returns = sample_returns(episodes, learner.returns, learner.discount)
    if not np.isfinite(returns).all():
        episode = episodes[samples[int(np.flatnonzero(~np.isfinite(returns))[0])].episode]
        raise DivergenceError(f"episode {episode.episode_id} has a return that is not finite; look at its rewards")
    levels = levels_of(samples, grouping)
    groups = groups_of(samples, levels, grouping.min_group_size)
    roles = [sample.role for sample in samples]
    advantages, signals = group_advantages(
        returns,
        groups,
        running,
        scale=grouping.scale_rewards,
        leave_one_out=grouping.baseline == "leave_one_out",
        shrunk=shrunk_levels(returns, levels, roles) if grouping.shrinkage else None,
    )
    per_turn = advantages
    if learner.returns == "episode":
        per_turn = np.repeat(advantages, [len(episode.turns) for episode in episodes])
    return Judgement(samples, returns, groups, signals, advantages, per_turn)
