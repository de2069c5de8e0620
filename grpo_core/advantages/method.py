"""Methods to compute advantages, for comparisons of the policy gradients they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from grpo_core.advantages.group_baseline import group_advantages
from grpo_core.advantages.grouping import Sample, groups_of, levels_of
from grpo_core.advantages.leave_one_out import means_of_other_episodes
from grpo_core.advantages.shrinkage import shrunk_levels
from grpo_core.settings import GroupingSettings
from grpo_core.types import FloatArray


@dataclass(frozen=True, slots=True)
class AdvantageMethod:
    """One way to compute unscaled advantages; ``str`` gives its name for display.

    ``baseline`` is what is subtracted from a return: nothing, the mean of the batch, or the mean of the finest group of
    ``keys`` that is large enough. The role always comes after the last key.
    """

    baseline: Literal["none", "batch", "groups"] = "groups"
    keys: tuple[str, ...] = ()  # key expressions from fine to coarse
    leave_one_out: bool = False  # the mean leaves out the sample's whole episode
    shrinkage: bool = False  # means of small groups are shrunk towards their parents'

    def __str__(self) -> str:
        options = [name for name, on in (("left-out", self.leave_one_out), ("shrunk", self.shrinkage)) if on]
        return ", ".join([" < ".join(self.keys) or self.baseline, *options])

    def advantages(self, samples: Sequence[Sample], returns: FloatArray, *, min_group_size: int = 2) -> FloatArray:
        """Compute one batch's advantages (samples,) from its finite returns (samples,).

        Raises:
            GroupingError: as ``levels_of`` and ``shrunk_levels`` do.
        """
        values = returns.astype(np.float64)
        episodes = np.array([sample.episode for sample in samples], np.int64)
        if self.baseline == "none":
            return returns.astype(np.float32)
        if self.baseline == "batch":
            mean = values.mean()
            if self.leave_one_out:
                mean, _ = means_of_other_episodes(values, np.zeros(len(samples), np.int64), episodes)
            centred: FloatArray = (values - mean).astype(np.float32)
            return centred
        role_name = samples[0].role_name
        keys = tuple(dict.fromkeys((*self.keys, role_name)))
        levels = levels_of(samples, GroupingSettings(keys=keys, role_name=role_name, allow_outcome_keys=True))
        roles = [sample.role for sample in samples]
        return group_advantages(
            returns,
            groups_of(samples, levels, min_group_size),
            {},
            scale="none",
            leave_one_out=self.leave_one_out,
            episodes=episodes,
            shrunk=shrunk_levels(returns, levels, roles, episodes) if self.shrinkage else None,
        )[0]


NO_BASELINE = AdvantageMethod("none")
BATCH_MEAN = AdvantageMethod("batch")


def reference_advantages(
    keys: tuple[str, ...], samples: Sequence[Sample], returns: FloatArray, *, min_group_size: int = 8
) -> FloatArray:
    """Compute advantages (samples,) over ALL data with baselines that leave out the sample's whole episode.

    So the gradient has no bias and, with the finest keys that have ``min_group_size`` episodes, little noise.
    """
    settings = GroupingSettings(keys=keys)
    episodes = np.array([sample.episode for sample in samples])
    values = returns.astype(np.float64)
    out = values.copy()
    for group in groups_of(samples, levels_of(samples, settings), min_group_size):
        members = np.asarray(group.members)
        means, _ = means_of_other_episodes(values[members], np.zeros_like(members), episodes[members])
        decided = np.isin(members, group.decided)
        out[members[decided]] -= means[decided]
    return out.astype(np.float32)
