"""Line-up blocks: who sits where, in countries' exact rotation, reproducible from one seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from opponents.matchmaking.anchors import anchors_among, is_against_anchors
from opponents.matchmaking.strategies import Strategy, by_weight
from opponents.matchmaking.weights import draw_index
from opponents.population.population import Member, Population, PopulationError
from opponents.settings import OpponentsSettings, member_id
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


@dataclass(frozen=True, slots=True)
class Drawn:
    """A block, and what drew its opponents."""

    block: LineupBlock
    strategy: str  # of ``opponents.matchmaking``, or "anchors"
    probabilities: str  # sixteen hexadecimal digits: the members of each seat's draw and their exact weights


class Matchmaker:
    """Draws the blocks of a run.

    A block depends on the seed, its index, the active members and, under strategies that look at results, on those.
    """

    def __init__(
        self,
        population: Population,
        num_generations: int,
        seed: int,
        settings: OpponentsSettings | None = None,
        strategy: Strategy = by_weight,
    ) -> None:
        """Draw nothing yet.

        Args:
            population: whose active members are drawn.
            num_generations: games of a block.
            seed: of the run.
            settings: how line-ups are made up; the defaults.
            strategy: weighs the members of a draw: what ``settings.matchmaking`` names, with the results it looks at.

        Raises:
            ValueError: a block would have no games.
        """
        if num_generations < 1:
            raise ValueError(f"num_generations must be at least 1, not {num_generations}")
        self._population = population
        self._num_generations = num_generations
        self._seed = seed
        self._settings = settings or OpponentsSettings()
        self._strategy = strategy

    def block(self, index: int, newest_snapshot: int | None = None) -> LineupBlock:
        """The block at ``index`` >= 0; see ``draw``."""
        return self.draw(index, newest_snapshot).block

    def draw(self, index: int, newest_snapshot: int | None = None) -> Drawn:
        """The block at ``index`` >= 0, and how it came about.

        Each run of seven blocks (0-6, 7-13, ...) gives every country once, in an order of its own. Opponents are drawn
        from the active members that joined up to update ``newest_snapshot`` (None: all), of the snapshots among them
        the newest ``opponents.max_snapshots`` (of specialists so many a country) and those that are pinned: a bound
        that depends on the index alone makes the line-up independent of timing, unless results decide. A specialist
        sits at its own country alone. Where somebody was retired by hand and the bound leaves nobody in the place,
        those may be drawn who joined since: a run could not go on otherwise.

        Raises:
            ValueError: the index is negative.
            PopulationError: a seat has nobody who could be drawn for it.
        """
        if index < 0:
            raise ValueError(f"blocks are numbered from 0, not {index}")
        members, everybody = self.drawable(newest_snapshot), self.drawable()
        try:
            return self._drawn(index, members)
        except PopulationError:
            if members == everybody:
                raise
            return self._drawn(index, everybody)

    def _drawn(self, index: int, members: Sequence[Member]) -> Drawn:
        learner_power = learner_of_block(self._seed, index)
        if not members:
            raise PopulationError(f"{self._population.path} has no active member with a weight above 0 to play against")
        strategy = self._strategy
        name: str = self._settings.matchmaking
        own: frozenset[str] = frozenset()
        if self._is_against_anchors(index, learner_power):
            members, strategy, name = self._anchors(members), by_weight, "anchors"
        else:
            own = self._self_play(index, learner_power)
        weights: list[object] = []
        seats: dict[str, str] = {}
        for power in _others(learner_power):
            if power in own:
                seats[power] = LEARNER
                continue
            sitting = self._for_seat(members, power)
            chances = strategy(sitting, learner_power)
            weights.append([power, [(m.id, float(w).hex()) for m, w in zip(sitting, chances, strict=True)]])
            one = ("opponent", index) if self._settings.lineup == "same" else ("opponent", index, power)
            seats[power] = sitting[draw_index(chances, derive_seed(self._seed, *one))].id
        return Drawn(self.seated(index, seats), name, _digest(weights))

    def seated(self, index: int, seats: Mapping[str, str]) -> LineupBlock:
        """The block at ``index`` with these six opponents, power -> member id or "learner".

        Raises:
            PopulationError: the population has no such member.
        """
        learner_power = learner_of_block(self._seed, index)
        opponents = tuple((power, seats[power]) for power in _others(learner_power))
        members = [(power, None if who == LEARNER else self._population[who]) for power, who in opponents]
        return LineupBlock(
            index=index,
            block_id=block_name(index),
            learner_power=learner_power,
            opponents=opponents,
            num_generations=self._num_generations,
            seed=derive_seed(self._seed, "block", index),
            lineup=lineup_digest(learner_power, members),
        )

    def drawable(self, newest_snapshot: int | None = None) -> tuple[Member, ...]:
        """Members that may be drawn for a block with this bound, by id; specialists too, and anchors as if pinned."""
        drawable = [
            member
            for member in self._population.active()
            if member.weight > 0 and (newest_snapshot is None or member.created_at_update <= newest_snapshot)
        ]
        named = {member_id(name) for name in self._settings.anchors}
        snapshots = sorted(
            (member for member in drawable if member.kind == "policy" and not member.pinned and member.id not in named),
            key=lambda member: (member.created_at_update, member.version, member.id),
        )
        surplus: set[str] = set()
        for country in {member.country for member in snapshots}:
            own = [member.id for member in snapshots if member.country == country]
            surplus.update(own[: max(0, len(own) - self._settings.max_snapshots)])
        return tuple(member for member in drawable if member.id not in surplus)

    def _anchors(self, members: Sequence[Member]) -> tuple[Member, ...]:
        anchors = anchors_among(members, self._settings.anchors)
        if not anchors:
            named = ", ".join(self._settings.anchors) or "bots"
            raise PopulationError(
                f"{self._population.path} has none of the anchors ({named}) active with a weight above 0, and "
                "opponents.anchor_share asks for blocks against them"
            )
        return anchors

    def _for_seat(self, members: Sequence[Member], power: str) -> tuple[Member, ...]:
        """Who may sit there; one member for all six seats cannot be a specialist."""
        countries = (None,) if self._settings.lineup == "same" else (None, power)
        sitting = tuple(member for member in members if member.country in countries)
        if not sitting:
            raise PopulationError(
                f"{self._population.path} has nobody to play {power}: every member that may be drawn plays another "
                "country alone"
            )
        return sitting

    def _is_against_anchors(self, index: int, learner_power: str) -> bool:
        order = sorted(POWERS, key=lambda power: derive_seed(self._seed, "anchors", power))
        return is_against_anchors(self._settings.anchor_share, number_of_block(index), order.index(learner_power))

    def _self_play(self, index: int, learner_power: str) -> frozenset[str]:
        """The learner's other seats: they move on by one seat a block, in an order of the country's own."""
        others = sorted(
            _others(learner_power), key=lambda power: derive_seed(self._seed, "self-play", learner_power, power)
        )
        first = number_of_block(index)
        return frozenset(others[(first + seat) % len(others)] for seat in range(self._settings.self_play_seats))


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
    return _digest([learner_power, sorted(seats)])


def _others(learner_power: str) -> tuple[str, ...]:
    return tuple(power for power in POWERS if power != learner_power)


def _digest(value: object) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=8).hexdigest()
