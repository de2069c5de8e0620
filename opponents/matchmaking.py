"""Line-up blocks: who sits where, in countries' exact rotation, reproducible from one seed."""

from __future__ import annotations

import bisect
import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opponents.population import Member, Population, PopulationError
from services.environments.diplomacy.position import POWERS

# Blocks that top an update up are numbered from here on, so that the schedule's stay what the seed made them.
EXTRA_BLOCKS_FROM = 7_000_000
EXTRA_BLOCKS_PER_UPDATE = 10_000  # of one country, at most


@dataclass(frozen=True, slots=True)
class LineupBlock:
    """One learner seat and six pinned opponents, played ``num_generations`` times with different seeds."""

    index: int
    block_id: str  # "b000123"
    learner_power: str
    opponents: tuple[tuple[str, str], ...]  # (power, member id) of the six others, in the order of POWERS
    num_generations: int
    seed: int  # in [0, 2**63)
    lineup: str  # digest of the learner's country and the opponents with their versions

    def game_seed(self, member: int) -> int:
        """Seed of game ``member`` (0 <= member < num_generations) of the block, in [0, 2**63)."""
        if not 0 <= member < self.num_generations:
            raise IndexError(f"{self.block_id} has games 0 to {self.num_generations - 1}, not {member}")
        return derive_seed(self.seed, "game", member)


class Matchmaker:
    """Draws the blocks of a run; a block depends on the seed, its index and the active members alone."""

    def __init__(self, population: Population, num_generations: int, seed: int, *, max_snapshots: int = 8) -> None:
        if num_generations < 1:
            raise ValueError(f"num_generations must be at least 1, not {num_generations}")
        self._population = population
        self._num_generations = num_generations
        self._seed = seed
        self._max_snapshots = max_snapshots

    def block(self, index: int, newest_snapshot: int | None = None) -> LineupBlock:
        """The block at ``index`` >= 0.

        Each run of seven blocks (0-6, 7-13, ...) gives every country once, in an order of its own. Opponents are drawn
        from the active bots, the active remotes and, of the active snapshots up to version ``newest_snapshot`` (None:
        all), the newest ``max_snapshots``: a bound that depends on the index alone makes the line-up independent of
        timing.

        Raises:
            ValueError: the index is negative.
            PopulationError: no active member has a weight above 0.
        """
        if index < 0:
            raise ValueError(f"blocks are numbered from 0, not {index}")
        members = self._eligible(newest_snapshot)
        if not members:
            raise PopulationError(f"{self._population.path} has no active member with a weight above 0 to play against")
        learner_power = learner_of_block(self._seed, index)
        drawn = {
            power: draw_member(members, derive_seed(self._seed, "opponent", index, power))
            for power in POWERS
            if power != learner_power
        }
        return LineupBlock(
            index=index,
            block_id=block_name(index),
            learner_power=learner_power,
            opponents=tuple((power, member.id) for power, member in drawn.items()),
            num_generations=self._num_generations,
            seed=derive_seed(self._seed, "block", index),
            lineup=lineup_digest(learner_power, drawn.items()),
        )

    def _eligible(self, newest_snapshot: int | None) -> tuple[Member, ...]:
        drawable = [member for member in self._population.active() if member.weight > 0]
        snapshots = sorted(
            (
                member
                for member in drawable
                if member.kind == "policy" and (newest_snapshot is None or member.version <= newest_snapshot)
            ),
            key=lambda member: member.version,
        )
        kept = {member.id for member in snapshots[max(0, len(snapshots) - self._max_snapshots) :]}
        return tuple(member for member in drawable if member.kind != "policy" or member.id in kept)


def block_name(index: int) -> str:
    """``"b000123"``."""
    return f"b{index:06d}"


def derive_seed(*parts: int | str) -> int:
    """An independent seed in [0, 2**63) for every distinct tuple of parts; the same on every machine."""
    text = json.dumps(parts).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def learner_of_block(seed: int, index: int) -> str:
    """The learner's country in block ``index``: each run of seven scheduled blocks has a seeded permutation."""
    if index >= EXTRA_BLOCKS_FROM:
        return POWERS[(index - EXTRA_BLOCKS_FROM) % len(POWERS)]
    run, place = divmod(index, len(POWERS))
    order = sorted(POWERS, key=lambda power: derive_seed(seed, "rotation", run, power))
    return order[place]


def extra_block(update: int, power: str, number: int) -> int:
    """Index of block ``number`` (from 0) that tops up ``power`` in update ``update``; ``Matchmaker.block`` draws it.

    Raises:
        ValueError: ``number`` is not below ``EXTRA_BLOCKS_PER_UPDATE``.
    """
    if not 0 <= number < EXTRA_BLOCKS_PER_UPDATE:
        raise ValueError(f"an update has extra blocks 0 to {EXTRA_BLOCKS_PER_UPDATE - 1} of a country, not {number}")
    place = update * EXTRA_BLOCKS_PER_UPDATE + number
    return EXTRA_BLOCKS_FROM + place * len(POWERS) + POWERS.index(power)


def draw_member(members: Sequence[Member], seed: int) -> Member:
    """One of ``members`` with probability proportional to its weight; their sum must be above 0."""
    bounds = list(itertools.accumulate(member.weight for member in members))
    point = seed / 2**63 * bounds[-1]
    return members[min(bisect.bisect_right(bounds, point), len(members) - 1)]


def lineup_digest(learner_power: str, opponents: Iterable[tuple[str, Member]]) -> str:
    """Sixteen hexadecimal digits for who sits where: the learner's country, members, versions, checksums."""
    seats = [(power, member.id, member.version, member.checksum) for power, member in opponents]
    text = json.dumps([learner_power, sorted(seats)]).encode()
    return hashlib.blake2b(text, digest_size=8).hexdigest()
