"""Selection: which snapshots stay when ``opponents.max_members`` bounds their number.

The newest and the strongest stay. Then, one at a time, the candidate with the highest sum of its strength (the lower
bound of its rating) and ``diversity`` times its distance from the nearest kept one (by its deviations by role) is kept.
So a candidate that resembles a kept one must be strong, and one that is good in other roles may be weaker.

The greedy choice by distance to the nearest chosen is Gonzalez's (Theoretical Computer Science 38, 1985); weighing it
against quality is Carbonell and Goldstein's (SIGIR 1998).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from opponents.population.member import Member
from opponents.ratings.book import RatingBook
from opponents.settings import OpponentsSettings, member_id

STRENGTH_SIGMAS = 1.96  # below the rating


@dataclass(frozen=True, slots=True)
class Candidate:
    """The ratings of a snapshot, in points."""

    id: str
    age: int  # the update that froze it
    strength: float
    by_role: tuple[float, ...] = ()  # (S,) deviations from its mean rating; a specialist has none


@dataclass(frozen=True, slots=True)
class Retirement:
    """A snapshot that retires, with the values that decided it."""

    id: str
    strength: float
    nearest: str  # id of the nearest one that stays
    distance: float


def retirements(candidates: Sequence[Candidate], most: int, diversity: float) -> tuple[Retirement, ...]:
    """The snapshots that retire so that ``most`` >= 1 stay, by id; the order of ``candidates`` does not matter."""
    if len(candidates) <= most:
        return ()
    left = {each.id: each for each in sorted(candidates, key=lambda each: each.id)}  # so ids break ties
    newest = max(left.values(), key=lambda each: each.age)
    kept = [left.pop(newest.id)]
    if len(kept) < most:
        kept.append(left.pop(max(left.values(), key=lambda each: each.strength).id))

    def worth(each: Candidate) -> float:
        return each.strength + diversity * min(distance(each, other) for other in kept)

    while len(kept) < most:
        kept.append(left.pop(max(left.values(), key=worth).id))
    nearest = {each: min(kept, key=lambda other: (distance(each, other), other.id)) for each in left.values()}
    return tuple(Retirement(one.id, one.strength, near.id, distance(one, near)) for one, near in nearest.items())


def distance(one: Candidate, other: Candidate) -> float:
    """Root mean square of the differences by role; 0 if either has none."""
    if not one.by_role or not other.by_role:
        return 0.0
    gaps = np.subtract(one.by_role, other.by_role)
    return float(np.sqrt(np.mean(gaps**2)))


def candidate_of(member: Member, book: RatingBook) -> Candidate:
    """A snapshot with its ratings; a specialist's strength is that as its own role."""
    rating = book.rating(member.id, member.country)
    deviations: tuple[float, ...] = ()
    if member.country is None:
        deviations = tuple(book.rating(member.id, role).mu - rating.mu for role in book.roles)
    return Candidate(member.id, member.version, rating.mu - STRENGTH_SIGMAS * rating.sigma, deviations)


def select_retirements(
    members: Iterable[Member], book: RatingBook, settings: OpponentsSettings
) -> tuple[Retirement, ...]:
    """The active members to retire; specialists are selected role by role. By role, then by id.

    No bots, chat players and anchors retire, and no members that a user added or pinned.
    """
    if settings.max_members == 0:
        return ()
    anchors = {member_id(name) for name in settings.anchors}
    groups: dict[str, list[Candidate]] = {}
    for member in members:
        if member.is_own_snapshot and not member.pinned and member.id not in anchors:
            groups.setdefault(member.country or "", []).append(candidate_of(member, book))
    return tuple(
        retirement
        for role in sorted(groups)
        for retirement in retirements(groups[role], settings.max_members, settings.diversity)
    )
