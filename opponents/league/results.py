"""The learner's scores by member and role: ``results.json`` of a run.

Scores lose weight with the learner's updates, because the learner changes; the counts of games do not. Scores have a
prior, so every score is defined from the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from opponents.population.files import read_document, write_document
from opponents.population.member import LARGEST_VERSION
from opponents.ratings.game_score import GameScore
from services.inference.engine import LEARNER

SCHEMA_VERSION = 1

PRIOR_SCORE = (1.0, 1.0)  # Beta prior: one win and one loss against every member
_COUNT = msgspec.Meta(ge=0, le=10**12)
ROLE_GAMES = 4.0  # weight, in games, of the overall score as the prior of a role's score


class Tally(msgspec.Struct, forbid_unknown_fields=True):
    """Sums over games. ``weight``, ``points`` and ``share`` fade; ``games`` does not."""

    games: Annotated[int, _COUNT] = 0
    weight: Annotated[float, _COUNT] = 0.0  # sum of the games' weights
    points: Annotated[float, _COUNT] = 0.0  # pairwise scores: 1 if the learner finished above, 0.5 if level, 0 if below
    share: Annotated[float, _COUNT] = 0.0  # the learner's shares of the score

    def add(self, points: float, share: float) -> None:
        """Count one more game."""
        self.games += 1
        self.weight += 1.0
        self.points += points
        self.share += share


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    update: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_VERSION)]
    members: dict[str, dict[str, Tally]]
    countries: dict[str, Tally]  # by role


class Results:
    """The learner's tallies by member and role (``tallies``), and by role alone."""

    def __init__(self, half_life: float) -> None:
        """Start empty; ``half_life`` is in updates."""
        self.update = 0  # the update up to which games have faded
        self._half_life = half_life
        self.tallies: dict[str, dict[str, Tally]] = {}
        self._roles: dict[str, Tally] = {}

    @classmethod
    def load(cls, path: Path, half_life: float) -> Results:
        """Load saved results, or none without a file. Raises PopulationError for a damaged file or another schema."""
        results = cls(half_life)
        document = read_document(path, _Document, SCHEMA_VERSION)
        if document is not None:
            results.update = document.update
            results.tallies, results._roles = document.members, document.countries
        return results

    def save(self, path: Path) -> None:
        """Replace the file in one step."""
        write_document(path, _Document(SCHEMA_VERSION, self.update, self.tallies, self._roles))

    def record(self, game: GameScore, role: str) -> None:
        """Count a game that the learner played as ``role``.

        Against a seat it scores 1 if it finished above, 0 below and 0.5 level, by ``GameScore.places``. A member with
        several seats counts once, with the mean over them. The learner's other seats (self-play) do not count.
        """
        share = game.score(role)
        rank = {seat: number for number, place in enumerate(game.places) for seat in place}
        points: dict[str, list[float]] = {}
        for seat, player in game.seats.items():
            if player != LEARNER:
                ahead = rank[seat] - rank[role]
                points.setdefault(player, []).append(0.5 if ahead == 0 else float(ahead > 0))
        for player, scores in points.items():
            tally = self.tallies.setdefault(player, {}).setdefault(role, Tally())
            tally.add(sum(scores) / len(scores), share)
        self._roles.setdefault(role, Tally()).add(0.0, share)

    def remove(self, members: Iterable[str]) -> None:
        """Remove members; the tallies by role alone stay. Unknown ids are ignored."""
        for member in members:
            self.tallies.pop(member, None)

    def advance(self, update: int) -> None:
        """Fade the games up to ``update``; updates that a resumed run makes again do not fade them twice."""
        factor = 0.5 ** (max(0, update - self.update) / self._half_life)
        self.update = max(update, self.update)
        for tally in (*self._roles.values(), *(t for by in self.tallies.values() for t in by.values())):
            tally.weight *= factor
            tally.points *= factor
            tally.share *= factor

    def score(self, member: str, role: str | None = None) -> float:
        """The learner's pairwise score against a member, in (0, 1); as ``role``, or over all roles it played.

        With few games, a role's score stays near the overall one, and that one near 0.5.
        """
        tallies = self.tallies.get(member, {})
        won, lost = PRIOR_SCORE
        points, weight = sum(t.points for t in tallies.values()), sum(t.weight for t in tallies.values())
        overall = (won + points) / (won + lost + weight)
        if role is None:
            return overall
        here = tallies.get(role, Tally())
        return (ROLE_GAMES * overall + here.points) / (ROLE_GAMES + here.weight)

    @property
    def games(self) -> Mapping[str, int]:
        """The number of games ever played against each member."""
        return {member: sum(t.games for t in by.values()) for member, by in sorted(self.tallies.items())}
