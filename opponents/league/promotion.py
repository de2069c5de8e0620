"""Promotion: the learner joins between scheduled snapshots once it is surely stronger than the newest of them.

The lower bound of the learner's rating must be above the rival's rating by a margin. The rival's rating is an estimate
too, correlated with the learner's, because it began as a copy of it. So the bound uses the larger standard deviation:
of the learner's rating, or of its difference from the rival's. A learner that is no stronger than the rival is then
promoted in at most the share of checks that a normal distribution has beyond ``promote_sigmas``.

In a world without anchors the level of all players together stays unknown, and with it every rating uncertain: there a
promotion by rating is rare.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from opponents.population.member import Member
from opponents.ratings.book import RatingBook
from opponents.settings import OpponentsSettings

NEWCOMER = "a newcomer"  # no member has this id, so its rating is that of an unknown player


@dataclass(frozen=True, slots=True)
class Rival:
    """The player that the learner must beat: a snapshot, or who stands in before there is one."""

    name: str  # "policy/v20"
    players: Mapping[str, str]  # role -> player id: one player, or a specialist for every role


@dataclass(frozen=True, slots=True)
class Lead:
    """The learner's rating beside its rival's, in points."""

    rating: float
    sigma: float  # standard deviation of the rating or of the difference, whichever is larger
    rival: str
    rival_rating: float

    def lower_bound(self, sigmas: float) -> float:
        """The lower bound of the rating."""
        return self.rating - sigmas * self.sigma


def deserves_promotion(lead: Lead, updates: int, settings: OpponentsSettings) -> bool:
    """Whether a learner with this lead joins ``updates`` after the newest snapshot; never if the margin is 0."""
    if settings.promote_margin == 0 or updates < settings.promote_min_updates:
        return False
    return lead.lower_bound(settings.promote_sigmas) > lead.rival_rating + settings.promote_margin


def lead_of(book: RatingBook, player: str, rival: Rival) -> Lead:
    """A player compared with a rival, both in the mean over the roles."""
    own = book.rating(player)
    others = math.fsum(book.rating(rival.players[role], role).mu for role in book.roles) / len(book.roles)
    return Lead(own.mu, max(own.sigma, _sigma_of_difference(book, player, rival)), rival.name, others)


def rival_among(members: Iterable[Member], book: RatingBook) -> Rival:
    """The newest rated snapshot of this run, retired or not.

    Without one it is the weakest anchor, and an unknown player in a world without anchors.
    """
    rated, roles = book.players, book.roles
    by_version: dict[int, dict[str, str]] = {}
    for member in members:
        if member.is_own_snapshot and member.id in rated:
            plays = roles if member.country is None else (member.country,)
            by_version.setdefault(member.version, {}).update(dict.fromkeys(plays, member.id))
    whole = [version for version, players in by_version.items() if len(players) == len(roles)]
    if not whole:
        first = min(book.anchors, key=lambda player: book.rating(player).mu, default=NEWCOMER)
        return Rival(first, dict.fromkeys(roles, first))
    return Rival(f"policy/v{max(whole)}", by_version[max(whole)])


def _sigma_of_difference(book: RatingBook, player: str, rival: Rival) -> float:
    """Standard deviation of the difference of two mean strengths, points."""
    belief = book.belief
    weights = np.zeros(len(belief.mean))
    for number, role in enumerate(book.roles):
        for who, sign in ((player, 1.0), (rival.players[role], -1.0)):
            if who in belief.players:  # anchors are exact
                start = belief.start(who)
                weights[[start, start + 1 + number]] += sign / len(book.roles)
    variance = float(weights @ belief.covariance @ weights)
    return math.sqrt(max(0.0, variance))
