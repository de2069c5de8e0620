"""Samples to groups by declared keys, with a fallback chain.

A *sample* is what gets one advantage: an episode, or a turn under per-phase and segment returns. Its facts are all
known before it acts: the episode's ``task`` and keys, its role as ``country``, the turn's keys. A *key expression*
joins facts by ``+``: ``country+lineup``. Besides plain facts there are

- ``difficulty:4``, ``scenario_length:3``: a numeric fact in that many quantile bins of the batch;
- ``fork``: the saved position an episode continues from; episodes without one fall back to the next expression;
- ``auto``, ``adaptive``, ``dirichlet``: clusters of numeric facts within a role (``grpo_core.advantages.clustering``).

Bins and clusters are made from the whole batch. With a fact that changes within an episode, its later turns would
decide the groups of its earlier ones, so bins and clusters take only facts of the episode, known at its start.
"""

from __future__ import annotations

import difflib
import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from grpo_core.errors import GroupingError
from grpo_core.settings import OUTCOME_KEYS, GroupingSettings
from grpo_core.types import Episode, FloatArray, Group, IntArray, KeyValue

FORK_FACT = "fork"
SEGMENT_FACT = "segment"
CLUSTER_FACTS = ("auto", "adaptive", "dirichlet")
RUNNING_LEVEL = "running"  # the level of groups that are compared with the running baseline
UNPLACED = -1  # the label of a sample that an expression does not place

CLUSTERS_OF = "grouping.cluster_features makes clusters"
_KNOWN_BEFORE = {"length": "scenario_length", "phases": "scenario_length", "centers": "own_centers"}

FactValue = KeyValue | float


@dataclass(frozen=True, slots=True)
class Sample:
    """What gets one advantage: its role, its episode and what was known before it acted."""

    role: str
    episode: int  # index into the batch's episodes
    facts: Mapping[str, FactValue]
    turn_facts: frozenset[str] = frozenset()  # names of the facts that may change within the episode
    role_name: str = "country"  # the fact that holds the role


@dataclass(frozen=True, slots=True)
class Level:
    """What one key expression makes of all samples, groups of any size."""

    expression: str
    members: Mapping[tuple[KeyValue, ...], tuple[int, ...]]  # by key, in order of the first member

    def labels(self, samples: int) -> IntArray:
        """The number of each sample's group, shape (samples,); ``UNPLACED`` where it has none."""
        out = np.full(samples, UNPLACED, np.int32)
        for label, members in enumerate(self.members.values()):
            out[list(members)] = label
        return out


def samples_of(
    episodes: Sequence[Episode], returns: Literal["episode", "per_phase", "segment"], role_name: str = "country"
) -> tuple[Sample, ...]:
    """The batch's samples in order: its episodes, or all turns in episode order (forced turns included).

    The fact ``role_name`` holds the role.
    """
    out: list[Sample] = []
    for index, episode in enumerate(episodes):
        facts = {"task": episode.task, **episode.keys, role_name: episode.role}
        if returns == "episode":
            out.append(Sample(episode.role, index, facts, role_name=role_name))
        else:
            changing = frozenset[str]().union(*(turn.keys for turn in episode.turns)).difference(facts)
            # The episode's facts win, so that no turn can pass for another role's.
            out.extend(
                Sample(episode.role, index, {**turn.keys, **facts}, changing, role_name) for turn in episode.turns
            )
    return tuple(out)


def with_outcomes(samples: Sequence[Sample], episodes: Sequence[Episode], returns: FloatArray) -> tuple[Sample, ...]:
    """Samples with outcomes as facts: ``return`` (the sample's), ``length`` (turns) and the episode's outcome.

    Only for runs that allow outcome keys; ``returns`` has shape (samples,).
    """
    out = []
    for sample, value in zip(samples, returns.tolist(), strict=True):
        episode = episodes[sample.episode]
        outcomes = {name: fact for name, fact in episode.outcome.items() if name in OUTCOME_KEYS}
        ended = {**outcomes, "length": len(episode.turns), "return": value}
        out.append(replace(sample, facts={**ended, **sample.facts}))
    return tuple(out)


def parse_expression(
    expression: str, allow_outcome_keys: bool, turn_facts: Collection[str] = (), *, role_name: str = "country"
) -> tuple[str, ...]:
    """Facts of one key expression, in order: ``"country+phase"`` -> ``("country", "phase")``.

    Bins stay with their fact (``"difficulty:4"``); see ``fact_and_bins``. ``turn_facts`` are the facts that may change
    within an episode; ``role_name`` is the one that holds the role.

    Raises:
        GroupingError: an empty or repeated fact, bins that are not a number from 2, no ``role_name`` (a baseline never
            mixes roles); or without ``allow_outcome_keys`` a fact made from outcomes, or bins of a turn's fact.
    """
    facts = tuple(part.strip() for part in expression.split("+"))
    names = [fact_and_bins(fact)[0] for fact in facts]
    if not all(names) or len(set(names)) != len(names):
        raise GroupingError(
            f"key expression {expression!r} has an empty or repeated fact; write e.g. {role_name}+phase"
        )
    if role_name not in facts:
        raise GroupingError(f"key expression {expression!r} would mix roles in one baseline; add {role_name}+")
    leaking = [name for name in names if name in OUTCOME_KEYS]
    if leaking and not allow_outcome_keys:
        before = _KNOWN_BEFORE.get(leaking[0])
        hint = f"name {before!r}, which is known before, or " if before else ""
        raise GroupingError(
            f"key expression {expression!r} uses {leaking[0]!r}, which is known only after the actions it would "
            f"judge; {hint}set grouping.allow_outcome_keys = true to accept the bias"
        )
    binned = [name for name, bins in map(fact_and_bins, facts) if bins is not None]
    check_known_at_start(f"key expression {expression!r} makes bins", binned, allow_outcome_keys, turn_facts)
    return facts


def check_known_at_start(
    what: str, names: Collection[str], allow_outcome_keys: bool, turn_facts: Collection[str]
) -> None:
    """Refuse bins or clusters of facts that may change within an episode.

    Raises:
        GroupingError: one of the facts is among ``turn_facts``, and outcome keys are not allowed.
    """
    changing = sorted(set(names).intersection(turn_facts))
    if changing and not allow_outcome_keys:
        raise GroupingError(
            f"{what} of {changing[0]!r}, which changes within an episode, so that later turns would decide the groups "
            f"of earlier ones; use a fact known at the episode's start, or {changing[0]!r} as a plain key, or set "
            "grouping.allow_outcome_keys = true to accept the bias"
        )


def fact_and_bins(fact: str) -> tuple[str, int | None]:
    """``"difficulty:4"`` -> ``("difficulty", 4)``; ``"phase"`` -> ``("phase", None)``.

    Raises:
        GroupingError: the bins are not a number from 2, or a cluster has bins.
    """
    name, colon, bins = (part.strip() for part in fact.partition(":"))
    if not colon:
        return name, None
    if name in CLUSTER_FACTS:
        raise GroupingError(f"{fact!r}: {name} has no bins; grouping.n_groups says how many clusters it makes")
    if not bins.isdecimal() or int(bins) < 2:
        raise GroupingError(f"{fact!r} does not say how many quantile bins; write e.g. {name or 'difficulty'}:4")
    return name, int(bins)


def declared_expressions(settings: GroupingSettings) -> tuple[str, ...]:
    """The key expressions in use: ``keys`` or all of ``choices``, and those of group weights and surgery where on."""
    weighed = () if settings.group_weights == "none" else (settings.weight_key,)
    compared = () if settings.gradient_surgery == "none" else (settings.surgery_key,)
    return (*settings.declared_keys, *weighed, *compared)


def required_facts(settings: GroupingSettings, turn_facts: Collection[str] = ()) -> dict[str, tuple[str, ...]]:
    """Facts that every sample must have, by the expression in use that names them, and those that clusters need.

    So a configuration can be checked against the facts that episodes declare before a game is played.

    Raises:
        GroupingError: see ``parse_expression`` and ``check_known_at_start``.
    """
    features = settings.cluster_features
    check_known_at_start(CLUSTERS_OF, features, settings.allow_outcome_keys, turn_facts)
    out = {"cluster_features": features} if features else {}
    for expression in declared_expressions(settings):
        facts = parse_expression(expression, settings.allow_outcome_keys, turn_facts, role_name=settings.role_name)
        names = [fact_and_bins(fact)[0] for fact in facts]
        out[expression] = tuple(name for name in names if name not in CLUSTER_FACTS and name != FORK_FACT)
    return out


def levels_of(samples: Sequence[Sample], settings: GroupingSettings) -> tuple[Level, ...]:
    """Every declared expression applied to all samples, from fine to coarse.

    Raises:
        GroupingError: see ``parse_expression``; or a fact some sample does not have; or bins of text.
    """
    out = []
    turn_facts = turn_facts_of(samples)
    for expression in settings.keys:
        facts = parse_expression(expression, settings.allow_outcome_keys, turn_facts, role_name=settings.role_name)
        out.append(Level(expression, _members_by_key(samples, facts, expression)))
    return tuple(out)


def turn_facts_of(samples: Sequence[Sample]) -> frozenset[str]:
    """Names of the facts that may change within an episode."""
    return frozenset[str]().union(*{sample.turn_facts for sample in samples})


def groups_of(samples: Sequence[Sample], levels: Sequence[Level], min_group_size: int) -> tuple[Group, ...]:
    """Groups that decide each sample's advantage exactly once.

    Each level, from fine to coarse, sorts ALL samples into groups. A group with samples of at least
    ``min_group_size`` episodes decides the advantages of its members that no finer group decided (``Group.decided``).
    Its baseline is made from all of its members, also those with a finer group. Samples that no expression can place
    are compared with their role's running baseline: groups of level ``"running"``, whose members are just these.

    Groups come by level and then in order of their first member.
    """
    waiting = set(range(len(samples)))
    groups: list[Group] = []
    for level in levels:
        for key, members in level.members.items():
            decided = tuple(index for index in members if index in waiting)
            if decided and len({samples[index].episode for index in members}) >= min_group_size:
                groups.append(Group(key, level.expression, members, decided))
                waiting.difference_update(decided)
    by_role: dict[str, list[int]] = defaultdict(list)
    for index in sorted(waiting):
        by_role[samples[index].role].append(index)
    groups.extend(Group((role,), RUNNING_LEVEL, tuple(left), tuple(left)) for role, left in by_role.items())
    return tuple(groups)


def key_column(samples: Sequence[Sample], fact: str, expression: str) -> list[KeyValue | None]:
    """Values of one fact of an expression, one a sample; None where an optional fact (``fork``) is absent.

    Raises:
        GroupingError: a sample lacks the fact, or bins are asked of text.
    """
    name, bins = fact_and_bins(fact)
    values = [
        sample.facts.get(name) if name == FORK_FACT else fact_of(sample, name, f"key expression {expression!r}")
        for sample in samples
    ]
    if bins is not None:
        return list(_quantile_bins(samples, [_number(value, fact) for value in values], bins))
    return [_as_key(value) if isinstance(value, float) else value for value in values]


def _as_key(value: float) -> KeyValue:
    """A whole number as such, so that 1.0 is 1 and -0.0 is 0; other numbers by their text."""
    return int(value) if value.is_integer() else repr(value)


def fact_of(sample: Sample, name: str, asker: str) -> FactValue:
    """One fact of a sample.

    Raises:
        GroupingError: the sample does not have it; the message names the asker and the nearest fact.
    """
    if name in sample.facts:
        return sample.facts[name]
    nearest = difflib.get_close_matches(name, sample.facts, n=1, cutoff=0.0) or ["none"]
    raise GroupingError(
        f"{asker} names the fact {name!r}, which a sample of {sample.role} does not have; nearest: "
        f"{nearest[0]!r} (it has {', '.join(sorted(sample.facts))}; turns' facts need "
        'learner.returns = "per_phase" or "segment")'
    )


def _members_by_key(
    samples: Sequence[Sample], facts: Sequence[str], expression: str
) -> dict[tuple[KeyValue, ...], tuple[int, ...]]:
    columns = [key_column(samples, fact, expression) for fact in facts]
    by_key: dict[tuple[KeyValue, ...], list[int]] = defaultdict(list)
    for index, values in enumerate(zip(*columns, strict=True)):
        key = tuple(value for value in values if value is not None)
        if len(key) == len(values):
            by_key[key].append(index)
    return {key: tuple(members) for key, members in by_key.items()}


def _number(value: FactValue | None, fact: str) -> float:
    if value is None or isinstance(value, str) or not math.isfinite(value):
        raise GroupingError(f"{fact!r} asks for quantile bins of {value!r}; only finite numbers have them")
    return float(value)


def _quantile_bins(samples: Sequence[Sample], values: Sequence[float], bins: int) -> list[int]:
    """Bin 0 .. bins - 1 of each value by its middle rank in the batch, so that equal values share a bin.

    An episode counts once with each value it had, because its number of turns is an outcome.
    """
    seen = np.sort([value for _, value in {(s.episode, v) for s, v in zip(samples, values, strict=True)}])
    below, upto = (np.searchsorted(seen, values, side=side) for side in ("left", "right"))
    found: list[int] = ((below + upto) * bins // (2 * len(seen))).tolist()
    return found
