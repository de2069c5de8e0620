"""Draws line-up blocks: countries in exact rotation and opponents by a strategy, reproducible from one seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opponents.matchmaking.lineup import (
    LineupBlock,
    block_name,
    is_against_anchors,
    learner_of_block,
    lineup_digest,
    number_of_block,
    other_powers,
)
from opponents.matchmaking.strategies import Strategy, anchors_among, by_weight, draw_index
from opponents.population.member import Member, PopulationError
from opponents.population.population import Population
from opponents.seeds import derive_seed, digest
from opponents.settings import OpponentsSettings, member_id
from services.environments.diplomacy.position import POWERS
from services.inference.engine import LEARNER


@dataclass(frozen=True, slots=True)
class DrawnBlock:
    """A block, and the strategy and probabilities of its draw."""

    block: LineupBlock
    strategy: str  # a value of ``opponents.matchmaking``, or "anchors"
    probabilities: str  # sixteen hexadecimal digits: digest of the members of each seat's draw and their exact weights


class Matchmaker:
    """Draws the blocks of a run.

    A block depends on the seed, its index, the active members and, under strategies that use results, on the results.
    """

    def __init__(
        self,
        population: Population,
        num_generations: int,
        seed: int,
        settings: OpponentsSettings | None = None,
        strategy: Strategy = by_weight,
    ) -> None:
        """Prepare blocks of ``num_generations`` >= 1 games. ``strategy`` is the one of ``settings.matchmaking``."""
        self._population = population
        self._num_generations = num_generations
        self._seed = seed
        self._settings = settings or OpponentsSettings()
        self._strategy = strategy

    def block(self, index: int, newest_snapshot: int | None = None) -> LineupBlock:
        """The block at ``index`` >= 0; see ``draw``."""
        return self.draw(index, newest_snapshot).block

    def draw(self, index: int, newest_snapshot: int | None = None) -> DrawnBlock:
        """The block at ``index`` >= 0, with how it was drawn.

        Each run of seven blocks (0-6, 7-13, ...) has every country once, in its own order. Opponents are drawn from the
        members that joined up to update ``newest_snapshot`` (None: all) and are ``drawable``; a specialist plays only
        its own country. So the line-up does not depend on timing, unless the strategy uses results. If members retired
        by hand leave a seat without candidates, later members may be drawn too, so that the run can continue.

        Raises PopulationError if a seat has no member to draw.
        """
        members, all_members = self.drawable(newest_snapshot), self.drawable()
        try:
            return self._draw_from(members, index)
        except PopulationError:
            if members == all_members:
                raise
            return self._draw_from(all_members, index)

    def _draw_from(self, members: Sequence[Member], index: int) -> DrawnBlock:
        learner_power = learner_of_block(self._seed, index)
        if not members:
            raise PopulationError(f"{self._population.path} has no active member with a weight above 0 to play against")
        strategy = self._strategy
        name: str = self._settings.matchmaking
        self_play: frozenset[str] = frozenset()
        if self._is_against_anchors(index, learner_power):
            members, strategy, name = self._anchors(members), by_weight, "anchors"
        else:
            self_play = self._self_play_seats(index, learner_power)
        draws: list[object] = []
        seats: dict[str, str] = {}
        for power in other_powers(learner_power):
            if power in self_play:
                seats[power] = LEARNER
                continue
            candidates = self._candidates(members, power)
            weights = strategy(candidates, learner_power)
            draws.append([power, [(m.id, float(w).hex()) for m, w in zip(candidates, weights, strict=True)]])
            parts = ("opponent", index) if self._settings.lineup == "same" else ("opponent", index, power)
            seats[power] = candidates[draw_index(weights, derive_seed(self._seed, *parts))].id
        return DrawnBlock(self.with_opponents(index, seats), name, digest(draws))

    def with_opponents(self, index: int, opponents_by_power: Mapping[str, str]) -> LineupBlock:
        """The block at ``index`` with these six opponents, power -> member id or "learner".

        Raises PopulationError if the population has no such member.
        """
        learner_power = learner_of_block(self._seed, index)
        opponents = tuple((power, opponents_by_power[power]) for power in other_powers(learner_power))
        members = [(power, None if player == LEARNER else self._population[player]) for power, player in opponents]
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
        """Members that may be drawn for a block with this bound, by id.

        Of the snapshots, these are the newest ``opponents.max_snapshots`` (for specialists: per country), pinned ones
        and anchors.
        """
        drawable = [
            member
            for member in self._population.active()
            if member.weight > 0 and (newest_snapshot is None or member.created_at_update <= newest_snapshot)
        ]
        anchors = {member_id(name) for name in self._settings.anchors}
        snapshots = sorted(
            (m for m in drawable if m.kind == "policy" and not m.pinned and m.id not in anchors),
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

    def _candidates(self, members: Sequence[Member], power: str) -> tuple[Member, ...]:
        """The members that may play ``power``; one member for all six seats cannot be a specialist."""
        countries = (None,) if self._settings.lineup == "same" else (None, power)
        candidates = tuple(member for member in members if member.country in countries)
        if not candidates:
            raise PopulationError(
                f"{self._population.path} has no member to play {power}: every member that may be drawn plays another "
                "country alone"
            )
        return candidates

    def _is_against_anchors(self, index: int, learner_power: str) -> bool:
        order = sorted(POWERS, key=lambda power: derive_seed(self._seed, "anchors", power))
        return is_against_anchors(self._settings.anchor_share, number_of_block(index), order.index(learner_power))

    def _self_play_seats(self, index: int, learner_power: str) -> frozenset[str]:
        """The learner's other seats: they move on by one seat per block, in an order of the country's own."""
        others = sorted(
            other_powers(learner_power), key=lambda power: derive_seed(self._seed, "self-play", learner_power, power)
        )
        first = number_of_block(index)
        return frozenset(others[(first + seat) % len(others)] for seat in range(self._settings.self_play_seats))
