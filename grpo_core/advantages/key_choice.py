"""Which chain of group keys a run uses: the one that has predicted returns best in earlier batches.

Each declared chain predicts a sample's return by the baseline that it would have had, the mean of its group's other
episodes. What is left of the returns' variance is added up over batches, older ones weighing less. The chain for a
batch is chosen before that batch is looked at, so that no sample has a part in the choice of its own baseline, which
would bias the gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from grpo_core.advantages.group_baseline import RunningBaseline, group_advantages
from grpo_core.advantages.grouping import RUNNING_LEVEL, Sample, groups_of, levels_of
from grpo_core.settings import GroupingSettings
from grpo_core.types import FloatArray


@dataclass(frozen=True, slots=True)
class KeyChoice:
    """What each chain has left unexplained of the batches so far."""

    left_out: Mapping[str, float] = field(default_factory=dict)  # squared distances from the baselines, by chain
    total: float = 0.0  # squared distances from the roles' means

    def explained(self, chain: Sequence[str]) -> float | None:
        """The share of the variance within roles that a chain predicts out of sample, at most 1; None: not known."""
        left = self.left_out.get(chain_name(chain))
        return None if left is None or self.total <= 0 else 1.0 - left / self.total


NOTHING_KNOWN = KeyChoice()


def chain_name(chain: Sequence[str]) -> str:
    """The name of a chain: ``country+phase > country``."""
    return " > ".join(chain)


def settings_in_force(settings: GroupingSettings, known: KeyChoice) -> GroupingSettings:
    """The settings with the keys that the next batch is to have; those given where they are not chosen.

    It is the chain that explains most and, before anything is known and among equals, the one declared first.
    """
    if not settings.chooses_keys:
        return settings
    best = max(settings.choices, key=lambda chain: known.explained(chain) or 0.0)  # the first of equals
    return settings.model_copy(update={"keys": best})


def after_batch(
    known: KeyChoice,
    samples: Sequence[Sample],
    returns: FloatArray,
    settings: GroupingSettings,
    running: Mapping[str, RunningBaseline],
) -> KeyChoice:
    """What is known after a batch, of ``returns`` (samples,); ``running`` are the roles' baselines before it.

    Raises GroupingError: see ``levels_of``.
    """
    if not settings.chooses_keys:
        return known
    owners = np.array([sample.episode for sample in samples], np.int64)
    from_means = _from_means(samples, returns)
    decay = settings.choice_decay
    left_out = {}
    for chain in settings.choices:
        levels = levels_of(samples, settings.model_copy(update={"keys": chain}))
        groups = groups_of(samples, levels, settings.min_group_size)
        residuals, _ = group_advantages(returns, groups, running, scale="none", leave_one_out=True, episodes=owners)
        for group in groups:
            # Without a running baseline such samples have no advantage, and nothing of them is predicted.
            if group.level == RUNNING_LEVEL and str(group.key[0]) not in running:
                residuals[list(group.decided)] = from_means[list(group.decided)]
        name = chain_name(chain)
        left_out[name] = decay * known.left_out.get(name, 0.0) + float(np.square(residuals, dtype=np.float64).sum())
    return KeyChoice(left_out, decay * known.total + float(np.square(from_means).sum()))


def _from_means(samples: Sequence[Sample], returns: FloatArray) -> NDArray[np.float64]:
    """Each return less the mean of its role in the batch, shape (samples,)."""
    values: NDArray[np.float64] = returns.astype(np.float64)
    roles = np.array([sample.role for sample in samples], dtype=object)
    found = np.empty(len(values))
    for role in sorted(set(roles)):
        found[roles == role] = values[roles == role] - values[roles == role].mean()
    return found
