"""Promotion: the learner joins between scheduled snapshots once it is surely stronger than the newest of them.

The lower bound of the learner's rating must be above the rival's rating by a margin. The rival's rating is an estimate
too, correlated with the learner's, because it began as a copy of it. So the bound uses the larger standard deviation:
of the learner's rating, or of its difference from the rival's. A learner that is no stronger than the rival is then
promoted in at most the share of checks that a normal distribution has beyond ``promote_sigmas``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from opponents.population.member import Member
from opponents.ratings.book import RatingBook
from opponents.ratings.likelihood import SEATS
from opponents.settings import OpponentsSettings
from services.environments.diplomacy.position import POWERS

FIRST_RIVAL = "bot/random"  # before there is a snapshot


@dataclass(frozen=True, slots=True)
class Rival:
    """The snapshot that the learner must beat."""

    name: str  # "policy/v20"
    players: Mapping[str, str]  # power -> player id: one player, or a specialist for every country


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
    """A player compared with a rival, both in the mean over the seven countries."""
    own = book.rating(player)
    others = math.fsum(book.rating(rival.players[power], power).mu for power in POWERS) / SEATS
    return Lead(own.mu, max(own.sigma, _sigma_of_difference(book, player, rival)), rival.name, others)


def rival_among(members: Iterable[Member], rated: Collection[str]) -> Rival:
    """The newest rated snapshot of this run, retired or not; the random bot if there is none."""
    by_version: dict[int, dict[str, str]] = {}
    for member in members:
        if member.is_own_snapshot and member.id in rated:
            plays = POWERS if member.country is None else (member.country,)
            by_version.setdefault(member.version, {}).update(dict.fromkeys(plays, member.id))
    whole = [version for version, players in by_version.items() if len(players) == len(POWERS)]
    if not whole:
        return Rival(FIRST_RIVAL, dict.fromkeys(POWERS, FIRST_RIVAL))
    return Rival(f"policy/v{max(whole)}", by_version[max(whole)])


def _sigma_of_difference(book: RatingBook, player: str, rival: Rival) -> float:
    """Standard deviation of the difference of two mean strengths, points."""
    belief = book.belief
    weights = np.zeros(len(belief.mean))
    for number, power in enumerate(POWERS):
        for who, sign in ((player, 1.0), (rival.players[power], -1.0)):
            if who in belief.players:  # anchors are exact
                start = belief.start(who)
                weights[[start, start + 1 + number]] += sign / SEATS
    variance = float(weights @ belief.covariance @ weights)
    return math.sqrt(max(0.0, variance))
