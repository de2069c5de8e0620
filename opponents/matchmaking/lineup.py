"""Line-up blocks, their numbers in the schedule, and the digest of a line-up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from grpo_core.seeds import derive_seed, digest
from opponents.population.member import Member
from services.inference.engine import LEARNER

# Extra blocks, which dynamic sampling adds to an update, are numbered from here on: the schedule stays unchanged.
EXTRA_BLOCKS_FROM = 7_000_000
EXTRA_BLOCKS_PER_UPDATE = 10_000  # at most, per role
_BLOCK_NAME = re.compile(r"b\d{6,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class LineupBlock:
    """One learner seat and pinned opponents, played ``num_generations`` times with different seeds."""

    index: int
    block_id: str  # "b000123"
    role: str  # the learner's
    # (role, member id or "learner") of all other seats, in the order of the world's roles; () where there are none.
    opponents: tuple[tuple[str, str], ...]
    num_generations: int
    seed: int  # in [0, 2**63)
    lineup: str  # digest of the learner's role and the opponents with their versions
    start: str = ""  # where its games start: a text that the world understands
    place: int = 0  # of the learner's role among the seats

    def game_seed(self, member: int) -> int:
        """Seed of game ``member`` (0 <= member < num_generations) of the block, in [0, 2**63)."""
        if not 0 <= member < self.num_generations:
            raise IndexError(f"{self.block_id} has games 0 to {self.num_generations - 1}, not {member}")
        return derive_seed(self.seed, "game", member)

    @property
    def players(self) -> dict[str, str]:
        """The player of each seat, "learner" on its own, in the order of the world's roles."""
        seats = list(self.opponents)
        seats.insert(self.place, (self.role, LEARNER))
        return dict(seats)


def block_name(index: int) -> str:
    """``"b000123"``."""
    return f"b{index:06d}"


def is_block_name(name: str) -> bool:
    """Whether ``block_name`` gives this name to some block."""
    return _BLOCK_NAME.fullmatch(name) is not None


def learner_of_block(seed: int, index: int, roles: Sequence[str]) -> str:
    """The learner's role in block ``index``: every R scheduled blocks, for R roles, are a seeded permutation."""
    if index >= EXTRA_BLOCKS_FROM:
        return roles[(index - EXTRA_BLOCKS_FROM) % len(roles)]
    run, place = divmod(index, len(roles))
    order = sorted(roles, key=lambda role: derive_seed(seed, "rotation", run, role))
    return order[place]


def number_of_block(index: int, roles: Sequence[str]) -> int:
    """The number of block ``index`` among its role's, from 0; extra blocks count from the update they belong to."""
    if index < EXTRA_BLOCKS_FROM:
        return index // len(roles)
    update, number = divmod((index - EXTRA_BLOCKS_FROM) // len(roles), EXTRA_BLOCKS_PER_UPDATE)
    return update + number


def extra_block(update: int, role: str, number: int, roles: Sequence[str]) -> int:
    """Index of extra block ``number`` of ``role`` in ``update``; 0 <= number < EXTRA_BLOCKS_PER_UPDATE."""
    if not 0 <= number < EXTRA_BLOCKS_PER_UPDATE:
        raise ValueError(f"an update has extra blocks 0 to {EXTRA_BLOCKS_PER_UPDATE - 1} of a role, not {number}")
    place = update * EXTRA_BLOCKS_PER_UPDATE + number
    return EXTRA_BLOCKS_FROM + place * len(roles) + roles.index(role)


def is_against_anchors(share: float, number: int, place: int, count: int) -> bool:
    """Whether a role's block ``number`` (from 0) belongs to the ``share`` in [0, 1] against anchors alone.

    ``place`` is the role's, from 0, in any fixed order of the ``count`` roles. Of any K successive blocks of a role
    ⌊K share⌋ or ⌈K share⌉ are against anchors, and of all roles' first K blocks ⌊count K share⌋ in all.
    """
    step = Fraction(str(share))  # as written in the config: 0.1 is a tenth
    behind = Fraction(place, count)
    return floor((number + 1) * step + behind) > floor(number * step + behind)


def lineup_digest(role: str, opponents: Iterable[tuple[str, Member | None]]) -> str:
    """Sixteen hexadecimal digits over the learner's role and each opponent's id, version and checksum.

    None is the learner itself, whose version is not pinned.
    """
    seats = [
        (seat, LEARNER, 0, "") if member is None else (seat, member.id, member.version, member.checksum)
        for seat, member in opponents
    ]
    return digest([role, sorted(seats)])


def other_roles(role: str, roles: Sequence[str]) -> tuple[str, ...]:
    """The roles other than the learner's, in their order."""
    return tuple(other for other in roles if other != role)
