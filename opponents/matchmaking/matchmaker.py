"""Line-up blocks: who sits where, in countries' exact rotation, reproducible from one seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opponents.matchmaking.anchors import anchors_among, is_against_anchors
from opponents.matchmaking.lineup import (
    LineupBlock,
    block_name,
    learner_of_block,
    lineup_digest,
    number_of_block,
    other_powers,
)
from opponents.matchmaking.strategies import Strategy, by_weight, draw_index
from opponents.population.member import Member, PopulationError
from opponents.population.population import Population
from opponents.seeding import derive_seed, digest
from opponents.settings import OpponentsSettings, member_id
from services.environments.diplomacy.position import POWERS
from services.inference.engine import LEARNER


@dataclass(frozen=True, slots=True)
class DrawnBlock:
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

    def draw(self, index: int, newest_snapshot: int | None = None) -> DrawnBlock:
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

    def _drawn(self, index: int, members: Sequence[Member]) -> DrawnBlock:
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
        for power in other_powers(learner_power):
            if power in own:
                seats[power] = LEARNER
                continue
            sitting = self._for_seat(members, power)
            chances = strategy(sitting, learner_power)
            weights.append([power, [(m.id, float(w).hex()) for m, w in zip(sitting, chances, strict=True)]])
            one = ("opponent", index) if self._settings.lineup == "same" else ("opponent", index, power)
            seats[power] = sitting[draw_index(chances, derive_seed(self._seed, *one))].id
        return DrawnBlock(self.seated(index, seats), name, digest(weights))

    def seated(self, index: int, seats: Mapping[str, str]) -> LineupBlock:
        """The block at ``index`` with these six opponents, power -> member id or "learner".

        Raises:
            PopulationError: the population has no such member.
        """
        learner_power = learner_of_block(self._seed, index)
        opponents = tuple((power, seats[power]) for power in other_powers(learner_power))
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
            other_powers(learner_power), key=lambda power: derive_seed(self._seed, "self-play", learner_power, power)
        )
        first = number_of_block(index)
        return frozenset(others[(first + seat) % len(others)] for seat in range(self._settings.self_play_seats))
