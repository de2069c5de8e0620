"""What every candidate group key explains of a batch's returns, as sums that may be added up over batches.

Axes: N samples, those of roles with at least two episodes in the batch; other roles have nothing to compare.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_core.advantages.grouping import CLUSTER_FACTS, UNPLACED, Sample, levels_of
from grpo_core.advantages.leave_one_out import episodes_in_group, means_of_other_episodes
from grpo_core.settings import OUTCOME_KEYS, GroupingSettings
from grpo_core.types import FloatArray

MAX_CANDIDATES = 24  # bounds the time an update takes and the size of its record


@dataclass(frozen=True, slots=True)
class KeySums:
    """Squared returns that one key expression does and does not account for."""

    between: float  # sum over groups of n (group's mean - batch's mean)^2
    within: float  # squared distances from the group's mean; between + within is the same for all keys of a batch
    left_out: float  # squared distances from the mean of the group's OTHER episodes
    groups: int
    by_country: int  # samples whose left-out mean is their country's: the group is too small, or has one episode


@dataclass(frozen=True, slots=True)
class Explained:
    """One batch's sums. ``same`` names keys that made the very groups of another one, which holds their sums."""

    samples: int
    keys: dict[str, KeySums]
    same: dict[str, str]


def candidate_keys(samples: Sequence[Sample], settings: GroupingSettings) -> tuple[str, ...]:
    """Declared key expressions, then ``country``, ``country+<fact>`` and ``country+<fact>+<fact>``, at most 24.

    Facts are those that every sample has as text or whole numbers and that are known before acting, without clusters
    and names that differ in every episode. With more facts than fit, those that vary within no role and the later ones
    in the alphabet are not paired.
    """
    role_name = settings.role_name
    episodes = len({sample.episode for sample in samples})
    roles = len({sample.role for sample in samples})
    shared = set.intersection(*(set(sample.facts) for sample in samples)) if samples else set()
    facts = [
        fact
        for fact in sorted(shared - OUTCOME_KEYS - {role_name, *CLUSTER_FACTS})
        if not set("+:") & set(fact)
        and not any(isinstance(sample.facts[fact], float) for sample in samples)
        and len({sample.facts[fact] for sample in samples}) < episodes
    ]
    facts.sort(key=lambda fact: len({(sample.role, sample.facts[fact]) for sample in samples}) == roles)
    undeclared = (chosen for size in (0, 1, 2) for chosen in itertools.combinations(facts, size))
    known = {frozenset(fact.strip() for fact in key.split("+")) for key in settings.keys}
    found = [
        "+".join((role_name, *sorted(chosen))) for chosen in undeclared if frozenset((role_name, *chosen)) not in known
    ]
    return (*settings.keys, *found)[: max(MAX_CANDIDATES, len(settings.keys))]


def explained_sums(samples: Sequence[Sample], returns: FloatArray, settings: GroupingSettings) -> Explained:
    """The sums of every candidate key over one batch.

    Of sums added over batches, ``eta^2 = between / (between + within)`` (Fisher's correlation ratio) grows with the
    number of groups whatever they mean; ``R^2 = 1 - left_out / (between + within)`` does not, because it predicts every
    sample from other episodes. Each batch is centred, so the policy's gain from one to the next counts for neither.

    Args:
        samples: of one batch.
        returns: (samples,) finite.
        settings: the declared keys, and ``min_group_size`` in episodes, below which the country's mean predicts.

    Raises:
        GroupingError: as ``levels_of`` does for the declared keys.
    """
    roles = np.unique([sample.role for sample in samples], return_inverse=True)[1].astype(np.int64)
    episodes = np.array([sample.episode for sample in samples], np.int64)
    compared = means_of_other_episodes(returns.astype(np.float64), roles, episodes)[1] > 0
    roles, episodes = roles[compared], episodes[compared]
    values = returns[compared].astype(np.float64)
    values -= values.mean() if len(values) else 0.0
    by_country, _ = means_of_other_episodes(values, roles, episodes)
    out = Explained(len(values), {}, {})
    known: dict[bytes, str] = {}
    keys = candidate_keys(samples, settings)
    for level in levels_of(samples, settings.model_copy(update={"keys": keys})):
        label = level.labels(len(samples))[compared].astype(np.int64)
        placed = label != UNPLACED
        # A sample that the key does not place stays with its country.
        label = _in_order(np.where(placed, label, len(level.members) + roles))
        if (first := known.setdefault(label.tobytes() + placed.tobytes(), level.expression)) != level.expression:
            out.same[level.expression] = first
        else:
            out.keys[level.expression] = _sums(values, label, placed, episodes, by_country, settings.min_group_size)
    return out


def _sums(
    values: NDArray[np.float64],
    label: NDArray[np.int64],
    placed: NDArray[np.bool_],
    episodes: NDArray[np.int64],
    by_country: NDArray[np.float64],
    min_group_size: int,
) -> KeySums:
    """``label`` is dense, ``values`` are centred, and ``by_country`` has their country's leave-one-out means."""
    sizes = np.bincount(label)
    between = float((np.bincount(label, values) ** 2 / np.maximum(sizes, 1)).sum())
    mean, others = means_of_other_episodes(values, label, episodes)
    own = placed & (episodes_in_group(label, episodes) >= min_group_size) & (others > 0)
    left_out = float(((values - np.where(own, mean, by_country)) ** 2).sum())
    return KeySums(
        between=between,
        within=max(0.0, float((values**2).sum()) - between),
        left_out=left_out,
        groups=len(np.unique(label[placed])),
        by_country=int((~own).sum()),
    )


def _in_order(label: NDArray[np.int64]) -> NDArray[np.int64]:
    """Groups numbered by their first member, so that equal partitions have equal labels."""
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)
