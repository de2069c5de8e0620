"""Line-up blocks: what a block is, how blocks are numbered, and the digest of a line-up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opponents.population.member import Member
from opponents.seeding import derive_seed, digest
from services.environments.diplomacy.position import POWERS
from services.inference.engine import LEARNER

# Blocks that top an update up are numbered from here on, so that the schedule's stay what the seed made them.
EXTRA_BLOCKS_FROM = 7_000_000


EXTRA_BLOCKS_PER_UPDATE = 10_000  # of one country, at most


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
        """Who sits where, "learner" on its own seat, in the order of POWERS."""
        seated = {self.learner_power: LEARNER, **dict(self.opponents)}
        return {power: seated[power] for power in POWERS}


def block_name(index: int) -> str:
    """``"b000123"``."""
    return f"b{index:06d}"


def learner_of_block(seed: int, index: int) -> str:
    """The learner's country in block ``index``: each run of seven scheduled blocks has a seeded permutation."""
    if index >= EXTRA_BLOCKS_FROM:
        return POWERS[(index - EXTRA_BLOCKS_FROM) % len(POWERS)]
    run, place = divmod(index, len(POWERS))
    order = sorted(POWERS, key=lambda power: derive_seed(seed, "rotation", run, power))
    return order[place]


def number_of_block(index: int) -> int:
    """The how-manieth block of its country ``index`` is, from 0; extra blocks count on from the update they top up."""
    if index < EXTRA_BLOCKS_FROM:
        return index // len(POWERS)
    update, number = divmod((index - EXTRA_BLOCKS_FROM) // len(POWERS), EXTRA_BLOCKS_PER_UPDATE)
    return update + number


def extra_block(update: int, power: str, number: int) -> int:
    """Index of block ``number`` (from 0) that tops up ``power`` in update ``update``; ``Matchmaker.block`` draws it.

    Raises:
        ValueError: ``number`` is not below ``EXTRA_BLOCKS_PER_UPDATE``.
    """
    if not 0 <= number < EXTRA_BLOCKS_PER_UPDATE:
        raise ValueError(f"an update has extra blocks 0 to {EXTRA_BLOCKS_PER_UPDATE - 1} of a country, not {number}")
    place = update * EXTRA_BLOCKS_PER_UPDATE + number
    return EXTRA_BLOCKS_FROM + place * len(POWERS) + POWERS.index(power)


def lineup_digest(learner_power: str, opponents: Iterable[tuple[str, Member | None]]) -> str:
    """Sixteen hexadecimal digits for who sits where: the learner's country, members, versions, checksums.

    None is the learner itself, whose version is not pinned.
    """
    seats = [
        (power, LEARNER, 0, "") if member is None else (power, member.id, member.version, member.checksum)
        for power, member in opponents
    ]
    return digest([learner_power, sorted(seats)])


def other_powers(learner_power: str) -> tuple[str, ...]:
    """The six powers beside the learner's, in the standard order."""
    return tuple(power for power in POWERS if power != learner_power)
