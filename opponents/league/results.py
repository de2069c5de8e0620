"""What the learner scored against whom, as which country: ``results.json`` of a run.

Scores fade with the learner's updates, for the learner changes; the counts of games do not. What is not known yet has
the value of its prior, so every score is defined from the first game on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from opponents.population.files import read_document, write_document
from opponents.ratings.game_score import GameScore
from services.environments.diplomacy.position import POWERS
from services.inference.engine import LEARNER

SCHEMA_VERSION = 1

PRIOR_SCORE = (1.0, 1.0)  # Beta: as if the learner had won once and lost once against everybody
COUNTRY_GAMES = 4.0  # as a country the learner is taken to score as overall, with the weight of this many games
SHARE_GAMES = 4.0  # Beta around the country's base share, likewise


class Tally(msgspec.Struct, forbid_unknown_fields=True):
    """Games of one kind. ``weight``, ``points`` and ``share`` fade; ``games`` does not."""

    games: int = 0
    weight: float = 0.0  # of the games
    points: float = 0.0  # pairwise scores, 1 for a game finished above, 0.5 level, 0 below
    share: float = 0.0  # the learner's shares of the sum of squares

    def add(self, points: float, share: float) -> None:
        """Count one more game."""
        self.games += 1
        self.weight += 1.0
        self.points += points
        self.share += share

    def fade(self, factor: float) -> None:
        """Let all games so far count less."""
        self.weight *= factor
        self.points *= factor
        self.share *= factor


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    update: int
    members: dict[str, dict[str, Tally]]
    countries: dict[str, Tally]


class Results:
    """Tallies by member and country, and by country alone."""

    def __init__(self, half_life: float) -> None:
        """Know nothing yet; ``half_life`` is in updates."""
        self.update = 0  # up to which games have faded
        self._half_life = half_life
        self._members: dict[str, dict[str, Tally]] = {}
        self._countries: dict[str, Tally] = {}

    @classmethod
    def load(cls, path: Path, half_life: float) -> Results:
        """What ``save`` wrote; nothing where there is no file.

        Raises:
            PopulationError: the file is damaged, or of another schema.
        """
        results = cls(half_life)
        document = read_document(path, _Document, SCHEMA_VERSION)
        if document is not None:
            results.update = document.update
            results._members, results._countries = document.members, document.countries
        return results

    def save(self, path: Path) -> None:
        """Replace the file in one step."""
        write_document(path, _Document(SCHEMA_VERSION, self.update, self._members, self._countries))

    def record(self, game: GameScore, learner_power: str) -> None:
        """Count a game of the learner as ``learner_power``.

        Against a seat it scores 1 where it finished above, 0 below and 0.5 level, as ``GameScore.places`` has it: a
        solo wins, else more centres do. A member that holds several seats gets the mean over them: seats of one game
        are not games of their own. The learner's other seats (self-play) are nobody's score.
        """
        share = game.score(learner_power)
        rank = {power: number for number, place in enumerate(game.places()) for power in place}
        points: dict[str, list[float]] = {}
        for power, player in game.seats.items():
            if player != LEARNER:
                ahead = rank[power] - rank[learner_power]
                points.setdefault(player, []).append(0.5 if ahead == 0 else float(ahead > 0))
        for player, scores in points.items():
            tally = self._members.setdefault(player, {}).setdefault(learner_power, Tally())
            tally.add(sum(scores) / len(scores), share)
        self._countries.setdefault(learner_power, Tally()).add(0.0, share)

    def remove(self, members: Iterable[str]) -> None:
        """Strike members out; what the learner scored as a country stays. Unknown ids pass."""
        for member in members:
            self._members.pop(member, None)

    def advance(self, update: int) -> None:
        """The learner has made ``update`` updates; those a resumed run makes again fade nothing twice."""
        factor = 0.5 ** (max(0, update - self.update) / self._half_life)
        self.update = max(update, self.update)
        for tally in (*self._countries.values(), *(t for by in self._members.values() for t in by.values())):
            tally.fade(factor)

    def score(self, member: str, power: str | None = None) -> float:
        """The learner's pairwise score against a member, in (0, 1); as ``power``, or as all countries it played.

        A country's score leans on the overall one, and that one on 0.5, the fewer games there are the more.
        """
        tallies = self._members.get(member, {})
        won, lost = PRIOR_SCORE
        points, weight = sum(t.points for t in tallies.values()), sum(t.weight for t in tallies.values())
        overall = (won + points) / (won + lost + weight)
        if power is None:
            return overall
        here = tallies.get(power, Tally())
        return (COUNTRY_GAMES * overall + here.points) / (COUNTRY_GAMES + here.weight)

    def share(self, power: str, base: float) -> float:
        """The learner's mean share of the sum of squares as a country, in (0, 1), from its share among equals on."""
        here = self._countries.get(power, Tally())
        return (SHARE_GAMES * base + here.share) / (SHARE_GAMES + here.weight)

    @property
    def members(self) -> tuple[str, ...]:
        """Everybody that the learner has met."""
        return tuple(self._members)

    @property
    def games(self) -> Mapping[str, int]:
        """Games against each member that the learner has met, ever."""
        return {member: sum(t.games for t in by.values()) for member, by in sorted(self._members.items())}

    def countries(self, member: str) -> Mapping[str, Tally]:
        """The tallies against one member, by the learner's country."""
        tallies = self._members.get(member, {})
        return {power: tallies[power] for power in POWERS if power in tallies}
