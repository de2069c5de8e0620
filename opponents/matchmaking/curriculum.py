"""The curriculum: each of the learner's countries meets ever stronger members, at its own pace.

The members are ordered from the easiest to the hardest, and a country's level is its place in that order. Under
``opponents.matchmaking = "curriculum"`` it meets the member of its level, and moves up or down when its share is
surely above or below given multiples of the share that equals get. A run keeps the levels in ``curriculum.json``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from opponents.population.files import read_document, write_document
from opponents.population.member import Member, PopulationError
from opponents.ratings.calibration import base_shares
from opponents.ratings.game_score import GameScore
from opponents.settings import OpponentsSettings, member_id
from services.environments.diplomacy.position import POWERS
from services.inference.engine import LEARNER

SCHEMA_VERSION = 1
CONFIDENCE_Z = 1.96  # 95 % bounds of a normal distribution
KEPT_GAMES = 4  # the newest games that count, as a multiple of opponents.curriculum_games


class CountryLevel(msgspec.Struct, forbid_unknown_fields=True):
    """The level of one country."""

    level: Annotated[int, msgspec.Meta(ge=0)] = 0  # the opponent's place in today's order
    opponent: str = ""  # member id; "": none yet
    # Shares of the sum of squares in the newest games at this level.
    shares: list[Annotated[float, msgspec.Meta(ge=0, le=1)]] = []


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A country's new level."""

    level: int
    opponent: str
    is_up: bool


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    countries: dict[str, CountryLevel]


def level_step(shares: Sequence[float], base: float, settings: OpponentsSettings) -> int:
    """1 to move up, -1 to move down, 0 to stay, after games (G,) with these shares where equals get ``base``.

    A country moves when its mean share is surely above ``curriculum_up`` or below ``curriculum_down`` times ``base``.
    With fewer than ``curriculum_games`` games it is 0. A sample without spread counts as certain.
    """
    games = len(shares)
    if games < settings.curriculum_games:
        return 0
    mean = math.fsum(shares) / games
    spread = math.sqrt(math.fsum((share - mean) ** 2 for share in shares) / (games - 1))
    margin = CONFIDENCE_Z * spread / math.sqrt(games)
    up, down = base * settings.curriculum_up, base * settings.curriculum_down
    return int(mean - margin > up) - int(mean + margin < down)


def curriculum_order(members: Sequence[Member], curriculum: Sequence[str]) -> tuple[str, ...]:
    """Member ids by level: the ``members`` that ``curriculum`` names, in its order, then snapshots by age.

    Specialists are left out, because they cannot fill every seat.
    """
    general = {member.id: member for member in members if member.country is None}
    named = [each for each in map(member_id, curriculum) if each in general]
    snapshots = sorted(
        (member for member in general.values() if member.kind == "policy" and member.id not in named),
        key=lambda member: (member.created_at_update, member.version, member.id),
    )
    return (*named, *(member.id for member in snapshots))


class Curriculum:
    """The levels of the seven countries."""

    def __init__(self, settings: OpponentsSettings, until_year: int) -> None:
        """Start every country at level 0, in games to the end of ``until_year``."""
        self._base = base_shares(until_year)
        self._settings = settings
        self._countries = {power: CountryLevel() for power in POWERS}

    @classmethod
    def load(cls, path: Path, settings: OpponentsSettings, until_year: int) -> Curriculum:
        """Load saved levels, or level 0 everywhere if there is no file.

        Raises PopulationError if the file is damaged or has another schema.
        """
        curriculum = cls(settings, until_year)
        document = read_document(path, _Document, SCHEMA_VERSION)
        if document is not None:
            if set(document.countries) != set(POWERS):
                raise PopulationError(f"{path} is damaged: it does not name the seven countries; remove it to go on")
            curriculum._countries = document.countries
        return curriculum

    def save(self, path: Path) -> None:
        """Replace the file in one step."""
        write_document(path, _Document(SCHEMA_VERSION, self._countries))

    @property
    def levels(self) -> dict[str, int]:
        """The level of each country, from 0."""
        return {power: self._countries[power].level for power in POWERS}

    def opponent(self, power: str, members: Sequence[Member]) -> str:
        """The opponent of a country: the member of its level, or the nearest one among ``members``.

        Raises PopulationError if none of them belongs to the curriculum.
        """
        country, order = self._countries[power], self._order(members)
        return country.opponent if country.opponent in order else order[min(country.level, len(order) - 1)]

    def record(self, games: Sequence[GameScore], power: str, members: Sequence[Member]) -> LevelChange | None:
        """Record the games of a block that the learner played as ``power``; returns its level change, if any.

        A game counts when most of its opponents, other than the learner's own seats, are the opponent of the level.
        ``members`` may be drawn now. Raises PopulationError if none of them belongs to the curriculum.
        """
        country, order = self._countries[power], self._order(members)
        _follow_order(country, order)
        country.shares += [game.score(power) for game in games if _is_against(game, power, country.opponent)]
        del country.shares[: -KEPT_GAMES * self._settings.curriculum_games]
        level = country.level + level_step(country.shares, self._base[power], self._settings)
        if level == country.level or not 0 <= level < len(order):
            return None
        self._countries[power] = CountryLevel(level, order[level])
        return LevelChange(level, order[level], is_up=level > country.level)

    def _order(self, members: Sequence[Member]) -> tuple[str, ...]:
        order = curriculum_order(members, self._settings.curriculum)
        if not order:
            raise PopulationError("opponents.curriculum: none of its members is active, and there is no snapshot")
        return order


def _follow_order(country: CountryLevel, order: Sequence[str]) -> None:
    """Adapt a level to snapshots that came or went; the country keeps its opponent while that is there."""
    if country.opponent in order:
        country.level = order.index(country.opponent)
        return
    country.level = min(country.level, len(order) - 1)
    country.opponent, country.shares = order[country.level], []


def _is_against(game: GameScore, power: str, opponent: str) -> bool:
    others = [player for seat, player in game.seats.items() if seat != power and player != LEARNER]
    return 2 * others.count(opponent) > len(others)
