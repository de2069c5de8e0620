"""Samples to groups by declared keys, with a fallback chain.

A *sample* is what gets one advantage: an episode, or a turn under per-phase returns. Its facts were all known
before it acted: the episode's keys, its role as ``country``, the turn's keys. A *key expression* joins facts by
``+``.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from grpo_core.errors import GroupingError
from grpo_core.settings import OUTCOME_KEYS, GroupingSettings
from grpo_core.types import Episode, Group, KeyValue

ROLE_FACT = "country"
RUNNING_LEVEL = "running"  # the level of groups that are judged against the running baseline


@dataclass(frozen=True, slots=True)
class Sample:
    """One thing to judge: whose it is and what was known before it."""

    role: str
    episode: int  # index into the batch's episodes
    facts: Mapping[str, KeyValue]


def samples_of(episodes: Sequence[Episode], returns: Literal["episode", "per_phase"]) -> tuple[Sample, ...]:
    """The batch's samples in order: its episodes, or all turns in episode order (forced turns included)."""
    out: list[Sample] = []
    for index, episode in enumerate(episodes):
        facts = {**episode.keys, ROLE_FACT: episode.role}
        if returns == "episode":
            out.append(Sample(episode.role, index, facts))
        else:
            # The episode's facts win, so that no turn can pass for another country's.
            out.extend(Sample(episode.role, index, {**turn.keys, **facts}) for turn in episode.turns)
    return tuple(out)


def parse_expression(expression: str, allow_outcome_keys: bool) -> tuple[str, ...]:
    """Facts of one key expression, in order: ``"country+phase"`` -> ``("country", "phase")``.

    Raises:
        GroupingError: an empty or repeated fact, no ``country`` (a baseline never mixes roles), or a fact made
            from outcomes without ``allow_outcome_keys``.
    """
    facts = tuple(part.strip() for part in expression.split("+"))
    if not all(facts) or len(set(facts)) != len(facts):
        raise GroupingError(f"key expression {expression!r} has an empty or repeated fact; write e.g. country+phase")
    if ROLE_FACT not in facts:
        raise GroupingError(f"key expression {expression!r} would mix roles in one baseline; add {ROLE_FACT}+")
    leaking = [fact for fact in facts if fact in OUTCOME_KEYS]
    if leaking and not allow_outcome_keys:
        raise GroupingError(
            f"key expression {expression!r} uses {leaking[0]!r}, which is known only after the actions it would "
            "judge; set grouping.allow_outcome_keys = true to accept the bias"
        )
    return facts


def make_groups(samples: Sequence[Sample], settings: GroupingSettings) -> tuple[Group, ...]:
    """Every sample judged by exactly one group.

    Each expression, from fine to coarse, sorts ALL samples into groups. A group of at least ``min_group_size``
    samples judges those of its members that no finer group judged (``Group.judged``); its baseline is made from
    all of its members (``Group.members``), also those with a finer group of their own. So a sample whose fine
    group is too small is compared with everybody that shares its coarser key. What no expression can place is
    judged by its role's running baseline: groups of level ``"running"``, whose members are just the judged ones.

    Groups come by level and then in order of their first member; the order of samples decides nothing else.

    Raises:
        GroupingError: see ``parse_expression``; or a fact some sample does not have.
    """
    chain = [(expression, parse_expression(expression, settings.allow_outcome_keys)) for expression in settings.keys]
    waiting = set(range(len(samples)))
    groups: list[Group] = []
    for expression, facts in chain:
        by_key: dict[tuple[KeyValue, ...], list[int]] = defaultdict(list)
        for index, sample in enumerate(samples):
            by_key[_key(sample, facts, expression)].append(index)
        for key, members in by_key.items():
            judged = tuple(index for index in members if index in waiting)
            if judged and len(members) >= settings.min_group_size:
                groups.append(Group(key=key, level=expression, members=tuple(members), judged=judged))
                waiting.difference_update(judged)
    by_role: dict[str, list[int]] = defaultdict(list)
    for index in sorted(waiting):
        by_role[samples[index].role].append(index)
    groups.extend(Group((role,), RUNNING_LEVEL, tuple(left), tuple(left)) for role, left in by_role.items())
    return tuple(groups)


def _key(sample: Sample, facts: tuple[str, ...], expression: str) -> tuple[KeyValue, ...]:
    try:
        return tuple(sample.facts[fact] for fact in facts)
    except KeyError as error:
        unknown = str(error.args[0])
        close = difflib.get_close_matches(unknown, sample.facts, n=1, cutoff=0.0)
        raise GroupingError(
            f"key expression {expression!r} names the fact {unknown!r}, which a sample of {sample.role} does not "
            f"have; nearest: {close[0]!r} (it has {', '.join(sorted(sample.facts))}; turns' facts need "
            'learner.returns = "per_phase")'
        ) from None
