"""Figures of groups from audit records: by role, by group that recurs, and by size."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

from grpo_core.errors import one_line
from services.reports.run_report.groups.buckets import Bucket
from services.reports.run_report.schema import Group

RUNNING = "running"  # the level of samples without a group, which are compared with their role's past
MOST_GROUPS = 16  # rows of a role; 18 pixels each
RECURS = 0.05  # of the updates: a group that is in fewer is no row, but counts for its role

# Upper ends of the classes of sizes.
_CLASSES = (1, 2, 4, 8, 16, 32, 64, 10**9)
CLASS_NAMES = ("1", "2", "3–4", "5–8", "9–16", "17–32", "33–64", "65 or more")

_LONGEST = 60  # characters of a fact in a label
_NUMBER = re.compile(r"[0-9]{1,12}")
Name = tuple[str, str]  # level and label without the role: ("country+phase", "S1901M")


@dataclass(frozen=True, slots=True)
class Figures:
    """What a bucket's groups of one row have in common; None where there is nothing to average."""

    judged: int  # samples whose advantage these groups decide
    mean: float | None  # return, over groups by judged samples
    std: float | None  # of returns within a group, likewise
    zero_variance: float | None  # share of the judged samples


def role_of(group: Group, role_name: str) -> str | None:
    """Return a group's role, which every key has."""
    place = 0 if group.level == RUNNING else _place(group.level, role_name)
    return None if place is None or place >= len(group.key) else str(group.key[place])


def name_of(group: Group, role_name: str) -> Name:
    """Return a group's level, and its key without the role."""
    place = _place(group.level, role_name)
    return group.level, " · ".join(_text(value) for number, value in enumerate(group.key) if number != place)


@lru_cache(maxsize=1000)
def _place(level: str, role_name: str) -> int | None:
    facts = [fact.strip() for fact in level.split("+")]
    return facts.index(role_name) if role_name in facts else None


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else one_line(value, _LONGEST)


def figures(groups: Iterable[Group]) -> Figures:
    """Return the means over groups, each weighted by the samples that it judges.

    Samples at the running level have no group, so they count among the judged ones and not in mean and deviation.
    """
    chosen = [group for group in groups if group.judged]
    formed = [group for group in chosen if group.level != RUNNING]
    judged = sum(group.judged for group in chosen)
    zero = sum(group.judged for group in chosen if group.zero_variance)
    return Figures(
        judged,
        _weighted([(group.mean, group.judged) for group in formed]),
        _weighted([(group.std, group.judged) for group in formed]),
        zero / judged if judged else None,
    )


def _weighted(pairs: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in pairs if value is not None]
    whole = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / whole if whole else None


def by_role(buckets: Sequence[Bucket]) -> dict[str, list[Figures]]:
    """Return each role's figures in every bucket."""
    found: list[dict[str, list[Group]]] = []
    for bucket in buckets:
        mine: dict[str, list[Group]] = defaultdict(list)
        for audit in bucket.audits:
            for group in audit.groups:
                if (role := role_of(group, audit.role_name)) is not None:
                    mine[role].append(group)
        found.append(mine)
    roles = sorted({role for mine in found for role in mine})
    return {role: [figures(mine.get(role, ())) for mine in found] for role in roles}


def recurring(buckets: Sequence[Bucket]) -> dict[str, dict[Name, list[Figures]]]:
    """Return, by role, the figures of the groups that recur, in every bucket; at most ``MOST_GROUPS`` of a role.

    A group recurs if it is in a share of ``RECURS`` of the updates and in two of them; in a run of one update, in it.
    Keys that name a question or a line-up never do. Those that are in most updates are chosen. They are sorted by
    level, by the first number in their name (the year of a phase), and then as the records list them.
    """
    places: dict[tuple[str, Name], list[int]] = defaultdict(list)  # within the role's groups of an update
    found: list[dict[tuple[str, Name], list[Group]]] = []
    for bucket in buckets:
        mine: dict[tuple[str, Name], list[Group]] = defaultdict(list)
        for audit in bucket.audits:
            place: Counter[str] = Counter()
            for group in audit.groups:
                role, name = role_of(group, audit.role_name), name_of(group, audit.role_name)
                if role is not None and group.level != RUNNING and name[1]:
                    mine[role, name].append(group)
                    places[role, name].append(place[role])
                    place[role] += 1
        found.append(mine)
    updates = sum(len(bucket.audits) for bucket in buckets)
    least = max(RECURS * updates, 2 if updates > 1 else 1)
    chosen: dict[str, list[Name]] = defaultdict(list)
    for (role, name), seen in sorted(places.items(), key=lambda item: (-len(item[1]), item[0])):
        if len(seen) >= least and len(chosen[role]) < MOST_GROUPS:
            chosen[role].append(name)
    average = {key: fmean(seen) for key, seen in places.items()}
    return {
        role: {name: [figures(mine.get((role, name), ())) for mine in found] for name in names}
        for role, names in ((role, _sorted(role, names, average)) for role, names in sorted(chosen.items()))
    }


def _sorted(role: str, names: Sequence[Name], average: Mapping[tuple[str, Name], float]) -> list[Name]:
    def place(name: Name) -> tuple[int, float, float, Name]:
        level, text = name
        found = _NUMBER.search(text)
        return levels.index(level), float(found[0]) if found else math.inf, average[role, name], name

    levels = list(dict.fromkeys(level for level, _ in names))  # the most frequent first
    return sorted(names, key=place)


def by_size(buckets: Sequence[Bucket]) -> dict[str, list[float]]:
    """Return the mean number of groups in an update by class of size, in every bucket; classes that occur.

    The running level is no group.
    """
    counts = [
        Counter(_class(group.size) for audit in bucket.audits for group in audit.groups if group.level != RUNNING)
        for bucket in buckets
    ]
    return {
        name: [count[number] / len(bucket.audits) for count, bucket in zip(counts, buckets, strict=True)]
        for number, name in enumerate(CLASS_NAMES)
        if any(count[number] for count in counts)
    }


def _class(size: int) -> int:
    return next(number for number, most in enumerate(_CLASSES) if size <= most)
