"""The curriculum: each of the learner's roles meets ever stronger members, at its own pace.

The members are ordered from the easiest to the hardest, and a role's level is its place in that order. Under
``opponents.matchmaking = "curriculum"`` it meets the member of its level, and moves up or down when its share is
surely above or below given multiples of the share that equals get. A run keeps the levels in ``curriculum.json``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from opponents.population.files import read_document, write_document
from opponents.population.member import Member, PopulationError
from opponents.ratings.game_score import GameScore
from opponents.settings import OpponentsSettings, member_id
from services.inference.engine import LEARNER

SCHEMA_VERSION = 1
CONFIDENCE_Z = 1.96  # 95 % bounds of a normal distribution
KEPT_GAMES = 4  # the newest games that count, as a multiple of opponents.curriculum_games


class RoleLevel(msgspec.Struct, forbid_unknown_fields=True):
    """The level of one role."""

    level: Annotated[int, msgspec.Meta(ge=0)] = 0  # the opponent's place in today's order
    opponent: str = ""  # member id; "": none yet
    # Shares of the score in the newest games at this level.
    shares: list[Annotated[float, msgspec.Meta(ge=0, le=1)]] = []


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A role's new level."""

    level: int
    opponent: str
    is_up: bool


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    countries: dict[str, RoleLevel]  # by role


def level_step(shares: Sequence[float], base: float, settings: OpponentsSettings) -> int:
    """1 to move up, -1 to move down, 0 to stay, after games (G,) with these shares where equals get ``base``.

    A role moves when its mean share is surely above ``curriculum_up`` or below ``curriculum_down`` times ``base``.
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
    """The levels of all roles."""

    def __init__(self, settings: OpponentsSettings, base_shares: Mapping[str, float]) -> None:
        """Start every role at level 0; ``base_shares`` is the share of the score that each gets among equals."""
        self._base = base_shares
        self._settings = settings
        self._roles = {role: RoleLevel() for role in base_shares}

    @classmethod
    def load(cls, path: Path, settings: OpponentsSettings, base_shares: Mapping[str, float]) -> Curriculum:
        """Load saved levels, or level 0 everywhere if there is no file.

        Raises PopulationError if the file is damaged, or has another schema or other roles.
        """
        curriculum = cls(settings, base_shares)
        document = read_document(path, _Document, SCHEMA_VERSION)
        if document is not None:
            if set(document.countries) != set(base_shares):
                named = ", ".join(base_shares)
                raise PopulationError(f"{path} is damaged: it does not name {named} alone; remove it to go on")
            curriculum._roles = document.countries
        return curriculum

    def save(self, path: Path) -> None:
        """Replace the file in one step."""
        write_document(path, _Document(SCHEMA_VERSION, self._roles))

    @property
    def levels(self) -> dict[str, int]:
        """The level of each role, from 0."""
        return {role: self._roles[role].level for role in self._base}

    def opponent(self, role: str, members: Sequence[Member]) -> str:
        """The opponent of a role: the member of its level, or the nearest one among ``members``.

        Raises PopulationError if none of them belongs to the curriculum.
        """
        now, order = self._roles[role], self._order(members)
        return now.opponent if now.opponent in order else order[min(now.level, len(order) - 1)]

    def record(self, games: Sequence[GameScore], role: str, members: Sequence[Member]) -> LevelChange | None:
        """Record the games of a block that the learner played as ``role``; returns its level change, if any.

        A game counts when most of its opponents, other than the learner's own seats, are the opponent of the level.
        ``members`` may be drawn now. Raises PopulationError if none of them belongs to the curriculum.
        """
        now, order = self._roles[role], self._order(members)
        _follow_order(now, order)
        now.shares += [game.score(role) for game in games if _is_against(game, role, now.opponent)]
        del now.shares[: -KEPT_GAMES * self._settings.curriculum_games]
        level = now.level + level_step(now.shares, self._base[role], self._settings)
        if level == now.level or not 0 <= level < len(order):
            return None
        self._roles[role] = RoleLevel(level, order[level])
        return LevelChange(level, order[level], is_up=level > now.level)

    def _order(self, members: Sequence[Member]) -> tuple[str, ...]:
        order = curriculum_order(members, self._settings.curriculum)
        if not order:
            raise PopulationError("opponents.curriculum: none of its members is active, and there is no snapshot")
        return order


def _follow_order(now: RoleLevel, order: Sequence[str]) -> None:
    """Adapt a level to snapshots that came or went; the role keeps its opponent while that is there."""
    if now.opponent in order:
        now.level = order.index(now.opponent)
        return
    now.level = min(now.level, len(order) - 1)
    now.opponent, now.shares = order[now.level], []


def _is_against(game: GameScore, role: str, opponent: str) -> bool:
    others = [player for seat, player in game.seats.items() if seat != role and player != LEARNER]
    return 2 * others.count(opponent) > len(others)
