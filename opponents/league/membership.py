"""Who joins a run's population and who retires, at an update: schedule, promotion and selection together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from opponents.league.promotion import Lead, deserves_promotion, lead_of, rival_among
from opponents.league.selection import who_retires
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
    """The learner joins as it is after ``version`` updates."""

    version: int
    why: str
    lead: Lead | None = None  # of one that is promoted; None: it is on schedule


class _Promotion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    lead: Lead


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    promotions: list[_Promotion]


class MembershipChange:
    """Decides by the ratings, and remembers in a file which snapshots were promoted and why."""

    def __init__(self, population: Population, settings: OpponentsSettings, path: Path) -> None:
        """Read what an earlier process remembered.

        Raises:
            PopulationError: the file is damaged, or of another schema.
        """
        self.leaving: frozenset[str] = frozenset()  # chosen to retire, as soon as no block is being played against them
        self._population = population
        self._settings = settings
        self._path = path
        document = read_document(path, _Document, SCHEMA_VERSION)
        self._promoted = {} if document is None else {each.version: each for each in document.promotions}

    @property
    def promotions(self) -> int:
        """Of snapshots that are members, retired ones too: one that a resume undid is none."""
        return len(self._promoted.keys() & self._versions())

    def snapshot_due(self, version: int, book: RatingBook) -> NewSnapshot | None:
        """Whether and why the learner joins after ``version`` updates; one that did already does not."""
        settings, before = self._settings, self._versions()
        if version == 0 or version in before:
            return None
        every = settings.snapshot_every
        if every > 0 and version % every == 0:
            return NewSnapshot(version, f"a snapshot every {every} updates")
        lead = lead_of(book, LEARNER, rival_among(self._population.members, book.players))
        if not deserves_promotion(lead, version - max(before, default=0), settings):
            return None
        surely = lead.lower_bound(settings.promote_sigmas)
        why = (
            f"rating {lead.rating:.1f} +- {lead.sigma:.1f}, lower bound {surely:.1f} "
            f"above {lead.rival}'s {lead.rival_rating:.1f} by more than {settings.promote_margin:g}"
        )
        return NewSnapshot(version, why, lead)

    def remember(self, joining: NewSnapshot) -> None:
        """Note a promotion, before it is one: what never came about is not counted."""
        if joining.lead is not None:
            self._promoted[joining.version] = _Promotion(joining.version, joining.lead)
            write_document(self._path, _Document(SCHEMA_VERSION, list(self._promoted.values())))

    def retire(self, book: RatingBook, playing: Collection[str]) -> list[str]:
        """Retire whom selection does not keep, within a transaction of the population; says whom and why.

        Whoever is in ``playing``, the members of blocks that have begun, is only ``leaving`` until they are over:
        actors may still ask for the weights.
        """
        chosen = who_retires(self._population.active(), book, self._settings)
        now = [each for each in chosen if each.id not in playing]
        for each in now:
            self._population.retire(each.id)
        self.leaving = frozenset(each.id for each in chosen if each.id in playing)
        return [
            f"{each.id} retires: its rating is surely above {each.strength:.1f} only, and by country it is "
            f"{each.distance:.1f} points from {each.nearest}; {self._settings.max_members} stay (opponents.max_members)"
            for each in now
        ]

    def passing_over_leaving(self, strategy: Strategy) -> Strategy:
        """The strategy, but nobody who is about to retire is drawn where there is somebody else."""

        def weigh(members: Sequence[Member], learner_power: str) -> Weights:
            weights = strategy(members, learner_power)
            leaving = np.array([member.id in self.leaving for member in members])
            if not leaving.any():
                return weights
            for otherwise in (weights, by_weight(members, learner_power)):
                chances: Weights = np.where(leaving, 0.0, otherwise)
                if chances.sum() > 0:
                    return chances
            return weights

        return weigh

    def _versions(self) -> set[int]:
        return {member.version for member in self._population.members if member.is_own_snapshot}
