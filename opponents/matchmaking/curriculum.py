"""How hard the learner's opponents are, country by country: a ladder that each country climbs at its own pace.

A country stands on a rung, the member it meets under ``opponents.matchmaking = "curriculum"``. It climbs when it is
sure to get clearly more there than equals would, steps down when it is sure to get clearly less, and stays between.
``curriculum.json`` of a run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from opponents.population.files import read_document, write_document
from opponents.population.member import Member, PopulationError
from opponents.ratings.country_base_rates import base_shares
from opponents.ratings.game_score import GameScore
from opponents.settings import OpponentsSettings, member_id
from services.environments.diplomacy.position import POWERS
from services.inference.engine import LEARNER

SCHEMA_VERSION = 1
CONFIDENCE_Z = 1.96  # bounds of 95 %, from a normal
KEPT_GAMES = 4  # times opponents.curriculum_games: the newest games that count


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a country moves: above ``up`` times its base share for sure, or below ``down`` times it."""

    up: float
    down: float
    least_games: int  # on a rung, before anything is sure


class Standing(msgspec.Struct, forbid_unknown_fields=True):
    """Where a country stands."""

    level: int = 0  # of its rung on today's ladder
    rung: str = ""  # member id; "": none yet
    shares: list[float] = []  # of the sum of squares, in its newest games on this rung


@dataclass(frozen=True, slots=True)
class Move:
    """A country that changed rungs."""

    power: str
    level: int  # the new one
    rung: str
    rose: bool


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    countries: dict[str, Standing]


def step(shares: Sequence[float], base: float, thresholds: Thresholds) -> int:
    """1 to climb, -1 to step down, 0 to stay, after games (G,) with these shares where equals get ``base``.

    A sample without spread is as sure as its mean; too few games, or none, are no reason to move.
    """
    games = len(shares)
    if games < max(2, thresholds.least_games):
        return 0
    mean = math.fsum(shares) / games
    spread = math.sqrt(math.fsum((share - mean) ** 2 for share in shares) / (games - 1))
    margin = CONFIDENCE_Z * spread / math.sqrt(games)
    return int(mean - margin > base * thresholds.up) - int(mean + margin < base * thresholds.down)


def ladder(members: Sequence[Member], curriculum: Sequence[str]) -> tuple[str, ...]:
    """Ids of the rungs among ``members``: those that ``curriculum`` names, in its order, then snapshots by age.

    Specialists are no rungs, for they cannot fill every seat.
    """
    general = {member.id: member for member in members if member.country is None}
    named = [each for each in map(member_id, curriculum) if each in general]
    snapshots = sorted(
        (member for member in general.values() if member.kind == "policy" and member.id not in named),
        key=lambda member: (member.created_at_update, member.version, member.id),
    )
    return (*named, *(member.id for member in snapshots))


class Curriculum:
    """The seven countries on the ladder."""

    def __init__(self, settings: OpponentsSettings, until_year: int) -> None:
        """Everybody at the foot of the ladder, in games to the end of ``until_year``."""
        self._base = base_shares(until_year)
        self._curriculum = settings.curriculum
        self._thresholds = Thresholds(settings.curriculum_up, settings.curriculum_down, settings.curriculum_games)
        self._standings = {power: Standing() for power in POWERS}

    @classmethod
    def load(cls, path: Path, settings: OpponentsSettings, until_year: int) -> Curriculum:
        """What ``save`` wrote; the foot of the ladder where there is no file.

        Raises:
            PopulationError: the file is damaged, or of another schema.
        """
        curriculum = cls(settings, until_year)
        document = read_document(path, _Document, SCHEMA_VERSION)
        if document is not None:
            if set(document.countries) != set(POWERS):
                raise PopulationError(f"{path} is damaged: it does not name the seven countries; remove it to go on")
            curriculum._standings = document.countries
        return curriculum

    def save(self, path: Path) -> None:
        """Replace the file in one step."""
        write_document(path, _Document(SCHEMA_VERSION, self._standings))

    @property
    def levels(self) -> dict[str, int]:
        """Level of each country, from 0."""
        return {power: self._standings[power].level for power in POWERS}

    def rung(self, power: str, members: Sequence[Member]) -> str:
        """Whom a country meets among ``members``: its own rung, or the nearest that they have.

        Raises:
            PopulationError: none of them is on the ladder.
        """
        standing, rungs = self._standings[power], self._ladder(members)
        return standing.rung if standing.rung in rungs else rungs[min(standing.level, len(rungs) - 1)]

    def record(self, games: Sequence[GameScore], power: str, members: Sequence[Member]) -> Move | None:
        """Take in the games of a block that the learner played as ``power``; says whether it moved.

        A game counts when most of its opponents, the learner's own seats aside, are the country's rung.

        Args:
            games: those of the block.
            power: the learner's country.
            members: those that may be drawn now, the ladder.

        Raises:
            PopulationError: none of the members is on the ladder.
        """
        standing, rungs = self._standings[power], self._ladder(members)
        self._settle(standing, rungs)
        standing.shares += [game.score(power) for game in games if _is_against(game, power, standing.rung)]
        del standing.shares[: -KEPT_GAMES * self._thresholds.least_games]
        level = standing.level + step(standing.shares, self._base[power], self._thresholds)
        if level == standing.level or not 0 <= level < len(rungs):
            return None
        rose = level > standing.level
        self._standings[power] = Standing(level, rungs[level])
        return Move(power, level, rungs[level], rose)

    def _ladder(self, members: Sequence[Member]) -> tuple[str, ...]:
        rungs = ladder(members, self._curriculum)
        if not rungs:
            raise PopulationError("opponents.curriculum: none of its members is active, and there is no snapshot")
        return rungs

    def _settle(self, standing: Standing, rungs: Sequence[str]) -> None:
        """The ladder changes as snapshots come and go; a country keeps its rung while that is there."""
        if standing.rung in rungs:
            standing.level = rungs.index(standing.rung)
            return
        standing.level = min(standing.level, len(rungs) - 1)
        standing.rung, standing.shares = rungs[standing.level], []


def _is_against(game: GameScore, power: str, rung: str) -> bool:
    opponents = [player for seat, player in game.seats.items() if seat != power and player != LEARNER]
    return 2 * opponents.count(rung) > len(opponents)
