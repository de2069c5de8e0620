"""Changes of a run's membership at an update: whether the learner joins as a snapshot, and which snapshots retire."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from opponents.league.promotion import Lead, deserves_promotion, lead_of, rival_among
from opponents.league.selection import select_retirements
from opponents.matchmaking.strategies import Strategy, Weights, by_weight
from opponents.population.files import read_document, write_document
from opponents.population.member import Member
from opponents.population.population import Population
from opponents.ratings.book import RatingBook
from opponents.settings import OpponentsSettings
from services.inference.engine import LEARNER

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class NewSnapshot:
    """The learner joins the population as it is after ``version`` updates."""

    version: int
    reason: str
    lead: Lead | None = None  # the lead that promoted it; None: it is scheduled


class _Promotion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    lead: Lead


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    promotions: list[_Promotion]


class MembershipChange:
    """Decides by schedule and ratings, and records in a file which snapshots were promoted and why."""

    def __init__(self, population: Population, settings: OpponentsSettings, path: Path, role_name: str) -> None:
        """Read earlier promotions from ``path``; ``role_name`` is what messages call a role.

        Raises PopulationError if the file is damaged or has another schema.
        """
        self.retiring: frozenset[str] = frozenset()  # selected, but blocks against them are still being played
        self._population = population
        self._settings = settings
        self._path = path
        self._role_name = role_name
        document = read_document(path, _Document, SCHEMA_VERSION)
        self._promoted = {} if document is None else {each.version: each for each in document.promotions}

    @property
    def promotions(self) -> int:
        """Number of promoted snapshots that are members, retired ones too; without those that a resume removed."""
        return len(self._promoted.keys() & self._versions())

    def snapshot_due(self, version: int, book: RatingBook) -> NewSnapshot | None:
        """The snapshot to make after ``version`` updates, if one is due and does not exist yet."""
        settings, existing = self._settings, self._versions()
        if version == 0 or version in existing:
            return None
        every = settings.snapshot_every
        if every > 0 and version % every == 0:
            return NewSnapshot(version, f"a snapshot every {every} updates")
        lead = lead_of(book, LEARNER, rival_among(self._population.members, book))
        if not deserves_promotion(lead, version - max(existing, default=0), settings):
            return None
        bound = lead.lower_bound(settings.promote_sigmas)
        reason = (
            f"rating {lead.rating:.1f} +- {lead.sigma:.1f}, lower bound {bound:.1f} "
            f"above {lead.rival}'s {lead.rival_rating:.1f} by more than {settings.promote_margin:g}"
        )
        return NewSnapshot(version, reason, lead)

    def record_promotion(self, new: NewSnapshot) -> None:
        """Record a promotion before the snapshot joins; ``promotions`` counts it only once the snapshot is a member."""
        if new.lead is not None:
            self._promoted[new.version] = _Promotion(new.version, new.lead)
            write_document(self._path, _Document(SCHEMA_VERSION, list(self._promoted.values())))

    def retire(self, book: RatingBook, playing: Collection[str]) -> list[str]:
        """Retire the snapshots that selection does not keep, within a transaction; returns a message for each.

        Members in ``playing``, which have blocks in progress, are only marked as ``retiring`` until these are over.
        """
        selected = select_retirements(self._population.active(), book, self._settings)
        now = [each for each in selected if each.id not in playing]
        for each in now:
            self._population.retire(each.id)
        self.retiring = frozenset(each.id for each in selected if each.id in playing)
        return [
            f"{each.id} retires: its rating is surely above {each.strength:.1f} only, and by {self._role_name} it is "
            f"{each.distance:.1f} points from {each.nearest}; {self._settings.max_members} stay (opponents.max_members)"
            for each in now
        ]

    def without_retiring(self, strategy: Strategy) -> Strategy:
        """The strategy, with members that are ``retiring`` drawn only if no other member can be."""

        def weigh(members: Sequence[Member], role: str) -> Weights:
            weights = strategy(members, role)
            retiring = np.array([member.id in self.retiring for member in members])
            if not retiring.any():
                return weights
            for fallback in (weights, by_weight(members, role)):
                remaining: Weights = np.where(retiring, 0.0, fallback)
                if remaining.sum() > 0:
                    return remaining
            return weights

        return weigh

    def _versions(self) -> set[int]:
        return {member.version for member in self._population.members if member.is_own_snapshot}
