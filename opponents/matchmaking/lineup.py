"""Line-up blocks, their numbers in the schedule, and the digest of a line-up."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from opponents.population.member import Member
from opponents.seeds import derive_seed, digest
from services.environments.diplomacy.position import POWERS
from services.inference.engine import LEARNER

# Extra blocks, which dynamic sampling adds to an update, are numbered from here on: the schedule stays unchanged.
EXTRA_BLOCKS_FROM = 7_000_000
EXTRA_BLOCKS_PER_UPDATE = 10_000  # at most, per country
_BLOCK_NAME = re.compile(r"b\d{6,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class LineupBlock:
    """One learner seat and six pinned opponents, played ``num_generations`` times with different seeds."""

    index: int
    block_id: str  # "b000123"
    learner_power: str
    opponents: tuple[tuple[str, str], ...]  # (power, member id or "learner") of the six others, in the order of POWERS
    num_generations: int
    seed: int  # in [0, 2**63)
    lineup: str  # digest of the learner's country and the opponents with their versions

    def game_seed(self, member: int) -> int:
        """Seed of game ``member`` (0 <= member < num_generations) of the block, in [0, 2**63)."""
        if not 0 <= member < self.num_generations:
            raise IndexError(f"{self.block_id} has games 0 to {self.num_generations - 1}, not {member}")
        return derive_seed(self.seed, "game", member)

    @property
    def players(self) -> dict[str, str]:
        """The player of each power, "learner" on its own seat, in the order of POWERS."""
        players = {self.learner_power: LEARNER, **dict(self.opponents)}
        return {power: players[power] for power in POWERS}


def block_name(index: int) -> str:
    """``"b000123"``."""
    return f"b{index:06d}"


def is_block_name(name: str) -> bool:
    """Whether ``block_name`` gives this name to some block."""
    return _BLOCK_NAME.fullmatch(name) is not None


def learner_of_block(seed: int, index: int) -> str:
    """The learner's country in block ``index``: each seven scheduled blocks follow a seeded permutation."""
    if index >= EXTRA_BLOCKS_FROM:
        return POWERS[(index - EXTRA_BLOCKS_FROM) % len(POWERS)]
    run, place = divmod(index, len(POWERS))
    order = sorted(POWERS, key=lambda power: derive_seed(seed, "rotation", run, power))
    return order[place]


def number_of_block(index: int) -> int:
    """The number of block ``index`` among its country's, from 0; extra blocks count from the update they belong to."""
    if index < EXTRA_BLOCKS_FROM:
        return index // len(POWERS)
    update, number = divmod((index - EXTRA_BLOCKS_FROM) // len(POWERS), EXTRA_BLOCKS_PER_UPDATE)
    return update + number


def extra_block(update: int, power: str, number: int) -> int:
    """Index of extra block ``number`` of ``power`` in ``update``; 0 <= number < EXTRA_BLOCKS_PER_UPDATE."""
    if not 0 <= number < EXTRA_BLOCKS_PER_UPDATE:
        raise ValueError(f"an update has extra blocks 0 to {EXTRA_BLOCKS_PER_UPDATE - 1} of a country, not {number}")
    place = update * EXTRA_BLOCKS_PER_UPDATE + number
    return EXTRA_BLOCKS_FROM + place * len(POWERS) + POWERS.index(power)


def is_against_anchors(share: float, number: int, place: int) -> bool:
    """Whether a country's block ``number`` (from 0) belongs to the ``share`` in [0, 1] against anchors alone.

    ``place`` is the country's, 0 to 6, in any fixed order. Of any K successive blocks of a country ⌊K share⌋ or
    ⌈K share⌉ are against anchors, and of the seven countries' first K blocks ⌊7 K share⌋ in all.
    """
    step = Fraction(str(share))  # as written in the config: 0.1 is a tenth
    behind = Fraction(place, len(POWERS))
    return floor((number + 1) * step + behind) > floor(number * step + behind)


def lineup_digest(learner_power: str, opponents: Iterable[tuple[str, Member | None]]) -> str:
    """Sixteen hexadecimal digits over the learner's country and each opponent's id, version and checksum.

    None is the learner itself, whose version is not pinned.
    """
    seats = [
        (power, LEARNER, 0, "") if member is None else (power, member.id, member.version, member.checksum)
        for power, member in opponents
    ]
    return digest([learner_power, sorted(seats)])


def other_powers(learner_power: str) -> tuple[str, ...]:
    """The six powers other than the learner's, in the standard order."""
    return tuple(power for power in POWERS if power != learner_power)
