"""Advantages of a batch: samples -> returns -> clusters -> groups -> advantages -> group weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_core.advantages.clustering import OnlineClusters, with_clusters
from grpo_core.advantages.group_baseline import GroupStatistics, RunningBaseline, group_advantages
from grpo_core.advantages.group_weights import GroupProgress, group_weights, updated_progress
from grpo_core.advantages.grouping import (
    Sample,
    groups_of,
    key_column,
    levels_of,
    parse_expression,
    samples_of,
    turn_facts_of,
    with_outcomes,
)
from grpo_core.advantages.key_choice import NOTHING_KNOWN, KeyChoice, after_batch, settings_in_force
from grpo_core.advantages.returns import opponent_adjusted, sample_returns
from grpo_core.advantages.shrinkage import shrunk_levels
from grpo_core.errors import DivergenceError
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Episode, FloatArray, Group

_UNPLACED = "none"  # in the name of a group of samples that a key expression does not place


@dataclass(frozen=True, slots=True, eq=False)
class AdvantageMemory:
    """What the advantages of later batches depend on, besides the running baselines; part of a checkpoint."""

    clusters: Mapping[str, OnlineClusters] = field(default_factory=dict)  # by role, for the fact "adaptive"
    progress: Mapping[str, GroupProgress] = field(default_factory=dict)  # by group of weight_key
    choice: KeyChoice = NOTHING_KNOWN  # for keys that are chosen

    def export(self) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
        """A JSON-able record, and arrays by name; ``restore`` takes both back."""
        record = {
            "clusters": {role: list(each.features) for role, each in sorted(self.clusters.items())},
            "progress": {name: [each.fast, each.slow, each.variance] for name, each in sorted(self.progress.items())},
            "choice": {"left_out": dict(self.choice.left_out), "total": self.choice.total},
        }
        arrays = {f"window/{role}": each.window_WF for role, each in self.clusters.items()}
        return record, arrays | {f"centroids/{role}": each.centroids_KF for role, each in self.clusters.items()}

    @classmethod
    def restore(cls, record: Mapping[str, Any], arrays: Mapping[str, NDArray[np.float64]]) -> AdvantageMemory:
        """What ``export`` gave; KeyError if an array is missing."""
        return cls(
            {
                role: OnlineClusters(tuple(features), arrays[f"window/{role}"], arrays[f"centroids/{role}"])
                for role, features in record["clusters"].items()
            },
            {name: GroupProgress(*numbers) for name, numbers in record["progress"].items()},
            KeyChoice(**record["choice"]),
        )


NO_MEMORY = AdvantageMemory()


@dataclass(frozen=True, slots=True, eq=False)
class AdvantageBatch:
    """A batch's samples, their returns, groups and advantages."""

    samples: tuple[Sample, ...]
    returns: FloatArray  # (samples,) less the expected return where opponent-adjusted
    groups: tuple[Group, ...]
    group_statistics: tuple[GroupStatistics, ...]  # one a group
    advantages: FloatArray  # (samples,) group weights included
    sample_of_turn: NDArray[np.int64]  # (turns,) index of each turn's sample; turns in episode order
    group_weights: Mapping[str, float]  # by group of weight_key, e.g. "FRANCE"; empty without weights
    surgery_groups: tuple[str, ...]  # (turns,) each turn's group of surgery_key; empty without gradient surgery
    grouping: GroupingSettings  # in force: with the chosen keys, where keys are chosen
    memory: AdvantageMemory  # for the next batch

    @property
    def turn_advantages(self) -> FloatArray:
        """Advantages (turns,) in episode order."""
        return self.advantages[self.sample_of_turn]


def compute_advantages(
    episodes: Sequence[Episode],
    learner: LearnerSettings,
    grouping: GroupingSettings,
    running: Mapping[str, RunningBaseline],
    memory: AdvantageMemory = NO_MEMORY,
) -> AdvantageBatch:
    """Advantages of all samples of the episodes.

    ``running`` are the roles' baselines before this batch, and ``memory`` the ``AdvantageBatch.memory`` of the batch
    before; neither is changed.

    Raises:
        GroupingError: a sample lacks a fact of a key expression, or the keys cannot be used (see ``levels_of``,
            ``with_clusters``, ``shrunk_levels``).
        DivergenceError: a return is not finite.
    """
    samples, returns = _samples_and_returns(episodes, learner, grouping)
    roles = [sample.role for sample in samples]
    samples, clusters = with_clusters(samples, grouping, memory.clusters)
    choice = after_batch(memory.choice, samples, returns, grouping, running)
    grouping = settings_in_force(grouping, memory.choice)  # what was known before this batch
    levels = levels_of(samples, grouping)
    groups = groups_of(samples, levels, grouping.min_group_size)
    owners = np.array([sample.episode for sample in samples], np.int64)
    advantages, statistics = group_advantages(
        returns,
        groups,
        running,
        scale=grouping.scale_rewards,
        leave_one_out=grouping.baseline == "leave_one_out",
        episodes=owners,
        shrunk=shrunk_levels(returns, levels, roles, owners) if grouping.shrinkage else None,
    )
    weights: dict[str, float] = {}
    progress = memory.progress
    if grouping.group_weights != "none":
        names = group_names(samples, grouping.weight_key, grouping)
        pairs = dict.fromkeys((name, sample.episode) for name, sample in zip(names, samples, strict=True))
        counts = Counter(name for name, _ in pairs)  # of episodes, because their number of turns is an outcome
        lowest, highest = grouping.min_group_weight, grouping.max_group_weight
        weights = group_weights(grouping.group_weights, counts, progress, lowest, highest)
        advantages = advantages * np.array([weights[name] for name in names], np.float32)
        progress = updated_progress(progress, names, returns)
    # A turn's sample is its episode, or itself.
    turns = [len(episode.turns) for episode in episodes]
    sample_of_turn = np.repeat(np.arange(len(turns)), turns) if learner.returns == "episode" else np.arange(sum(turns))
    surgery: Sequence[str] = ()
    if grouping.gradient_surgery != "none":
        names = group_names(samples, grouping.surgery_key, grouping)
        surgery = [names[sample] for sample in sample_of_turn]
    return AdvantageBatch(
        samples,
        returns,
        groups,
        statistics,
        advantages,
        sample_of_turn,
        weights,
        tuple(surgery),
        grouping,
        AdvantageMemory(clusters, progress, choice),
    )


def _samples_and_returns(
    episodes: Sequence[Episode], learner: LearnerSettings, grouping: GroupingSettings
) -> tuple[tuple[Sample, ...], FloatArray]:
    samples = samples_of(episodes, learner.returns, grouping.role_name)
    returns = sample_returns(episodes, learner.returns, learner.discount)
    if not np.isfinite(returns).all():
        episode = episodes[samples[int(np.flatnonzero(~np.isfinite(returns))[0])].episode]
        raise DivergenceError(f"episode {episode.episode_id} has a return that is not finite; look at its rewards")
    if grouping.allow_outcome_keys:
        samples = with_outcomes(samples, episodes, returns)
    if grouping.opponent_adjusted:
        returns = opponent_adjusted(returns, samples)
    return samples, returns


def group_names(samples: Sequence[Sample], expression: str, grouping: GroupingSettings) -> list[str]:
    """The name of each sample's group under a key expression: ``"FRANCE"``, ``"FRANCE+opening"``.

    Raises:
        GroupingError: a sample lacks a fact of the expression, or it cannot be used.
    """
    facts = parse_expression(
        expression, grouping.allow_outcome_keys, turn_facts_of(samples), role_name=grouping.role_name
    )
    keys = list(zip(*(key_column(samples, fact, expression) for fact in facts), strict=True))
    names: dict[tuple[Any, ...], str] = {}
    taken: Counter[str] = Counter()
    for key in dict.fromkeys(keys):
        name = "+".join(_UNPLACED if value is None else str(value) for value in key)
        taken[name] += 1
        names[key] = f"{name}#{taken[name]}" if taken[name] > 1 else name  # values may hold a + themselves
    return [names[key] for key in keys]
