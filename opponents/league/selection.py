"""Selection: which snapshots stay where ``opponents.max_members`` bounds how many.

The newest stays, and the strongest. Then, one at a time, whoever is worth most: its strength plus ``diversity`` times
its distance from the nearest that stays. So who resembles one that stays must be strong, and who is good at other
countries may be weaker.

Strength is the lower bound of the rating, and distance is between what players make of the seven countries beyond their
strength, both in rating points and from the same book: how the learner's games against them ended, less noise. The
greedy choice by distance to the nearest chosen is Gonzalez's (Theoretical Computer Science 38, 1985); weighing it
against quality is Carbonell and Goldstein's (SIGIR 1998).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from opponents.population.member import Member
from opponents.ratings.book import RatingBook
from opponents.settings import OpponentsSettings, member_id
from services.environments.diplomacy.position import POWERS

STRENGTH_SIGMAS = 1.96  # below the rating


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is known of a snapshot, rating points."""

    id: str
    age: int  # the update that froze it
    strength: float
    by_country: tuple[float, ...] = ()  # deviations from its strength, as long as the others'; a specialist has none


@dataclass(frozen=True, slots=True)
class Retirement:
    """Who leaves, and why: nobody who stays is as weak beside its distance."""

    id: str
    strength: float
    nearest: str  # of those that stay
    distance: float


def retirements(standings: Sequence[Candidate], most: int, diversity: float) -> tuple[Retirement, ...]:
    """Who leaves so that ``most`` >= 1 stay, by id; nobody if there are no more. The order given does not matter."""
    if len(standings) <= most:
        return ()
    left = {each.id: each for each in sorted(standings, key=lambda each: each.id)}  # so ties go by id
    newest = max(left.values(), key=lambda each: each.age)
    kept = [left.pop(newest.id)]
    if len(kept) < most:
        kept.append(left.pop(max(left.values(), key=lambda each: each.strength).id))

    def worth(each: Candidate) -> float:
        return each.strength + diversity * min(distance(each, other) for other in kept)

    while len(kept) < most:
        kept.append(left.pop(max(left.values(), key=worth).id))
    return tuple(_retirement(each, kept) for each in left.values())


def distance(one: Candidate, other: Candidate) -> float:
    """Root mean square of how differently two players do by country."""
    if not one.by_country or not other.by_country:
        return 0.0
    gaps = np.subtract(one.by_country, other.by_country)
    return float(np.sqrt(np.mean(gaps**2)))


def may_retire(member: Member, settings: OpponentsSettings) -> bool:
    """Whether the bound is on members such as this: no bots, remotes, anchors, none that a person added or pinned."""
    named = {member_id(name) for name in settings.anchors}
    return member.is_own_snapshot and not member.pinned and member.id not in named


def standing_of(member: Member, book: RatingBook) -> Candidate:
    """A snapshot as the book has it; a specialist is as strong as it is as its own country."""
    rating = book.rating(member.id, member.country)
    deviations: tuple[float, ...] = ()
    if member.country is None:
        deviations = tuple(book.rating(member.id, power).mu - rating.mu for power in POWERS)
    return Candidate(member.id, member.version, rating.mu - STRENGTH_SIGMAS * rating.sigma, deviations)


def who_retires(members: Iterable[Member], book: RatingBook, settings: OpponentsSettings) -> tuple[Retirement, ...]:
    """Of these active members, for all countries and for each specialists' one apart; by id within each."""
    if settings.max_members == 0:
        return ()
    by_country: dict[str, list[Candidate]] = {}
    for member in members:
        if may_retire(member, settings):
            by_country.setdefault(member.country or "", []).append(standing_of(member, book))
    return tuple(
        leaving
        for country in sorted(by_country)
        for leaving in retirements(by_country[country], settings.max_members, settings.diversity)
    )


def _retirement(each: Candidate, kept: Sequence[Candidate]) -> Retirement:
    nearest = min(kept, key=lambda other: (distance(each, other), other.id))
    return Retirement(each.id, each.strength, nearest.id, distance(each, nearest))
