"""Draws line-up blocks: roles in exact rotation and opponents by a strategy, reproducible from one seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grpo_core.seeds import derive_seed, digest
from opponents.matchmaking.lineup import (
    LineupBlock,
    block_name,
    is_against_anchors,
    learner_of_block,
    lineup_digest,
    number_of_block,
    other_roles,
)
from opponents.matchmaking.strategies import Strategy, anchors_among, by_weight, draw_index
from opponents.population.member import Member, PopulationError
from opponents.population.population import Population
from opponents.settings import OpponentsSettings, member_id
from services.environments.environment import World
from services.environments.starts import StartSchedule
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
    Where it starts depends on the world's schedule. In a world without opponents it depends on no member.
    """

    def __init__(
        self,
        population: Population,
        world: World,
        num_generations: int,
        seed: int,
        settings: OpponentsSettings | None = None,
        strategy: Strategy = by_weight,
        starts: StartSchedule | None = None,
    ) -> None:
        """Prepare blocks of ``num_generations`` >= 1 games.

        ``strategy`` is the one of ``settings.matchmaking``; ``starts`` is by default a new schedule of the world.
        """
        self._population = population
        self._world = world
        self._roles = world.roles
        self._starts = starts or world.starts()
        self._num_generations = num_generations
        self._seed = seed
        self._settings = settings or OpponentsSettings()
        self._strategy = strategy

    def block(self, index: int, newest_snapshot: int | None = None) -> LineupBlock:
        """The block at ``index`` >= 0; see ``draw``."""
        return self.draw(index, newest_snapshot).block

    def draw(self, index: int, newest_snapshot: int | None = None) -> DrawnBlock:
        """The block at ``index`` >= 0, with how it was drawn.

        Each round of blocks (of seven roles: 0-6, 7-13, ...) has every role once, in its own order. Opponents are drawn
        from the members that joined up to update ``newest_snapshot`` (None: all) and are ``drawable``; a specialist
        plays only its own role. So the line-up does not depend on timing, unless the strategy uses results. If members
        retired by hand leave a seat without candidates, later members may be drawn too, so that the run can continue.

        Raises PopulationError if a seat has no member to draw.
        """
        if not self._world.has_opponents:
            return DrawnBlock(self.with_opponents(index, {}), self._settings.matchmaking, digest([]))
        members, all_members = self.drawable(newest_snapshot), self.drawable()
        try:
            return self._draw_from(members, index)
        except PopulationError:
            if members == all_members:
                raise
            return self._draw_from(all_members, index)

    def _draw_from(self, members: Sequence[Member], index: int) -> DrawnBlock:
        role = learner_of_block(self._seed, index, self._roles)
        if not members:
            raise PopulationError(f"{self._population.path} has no active member with a weight above 0 to play against")
        strategy = self._strategy
        name: str = self._settings.matchmaking
        self_play: frozenset[str] = frozenset()
        if self._is_against_anchors(index, role):
            members, strategy, name = self._anchors(members), by_weight, "anchors"
        else:
            self_play = self._self_play_seats(index, role)
        draws: list[object] = []
        seats: dict[str, str] = {}
        for seat in other_roles(role, self._roles):
            if seat in self_play:
                seats[seat] = LEARNER
                continue
            candidates = self._candidates(members, seat)
            weights = strategy(candidates, role)
            draws.append([seat, [(m.id, float(w).hex()) for m, w in zip(candidates, weights, strict=True)]])
            parts = ("opponent", index) if self._settings.lineup == "same" else ("opponent", index, seat)
            seats[seat] = candidates[draw_index(weights, derive_seed(self._seed, *parts))].id
        return DrawnBlock(self.with_opponents(index, seats), name, digest(draws))

    def seats(self, index: int) -> tuple[str, ...]:
        """The roles of the opponents in the block at ``index``; () in a world without opponents."""
        if not self._world.has_opponents:
            return ()
        return other_roles(learner_of_block(self._seed, index, self._roles), self._roles)

    def with_opponents(self, index: int, by_role: Mapping[str, str], start: str | None = None) -> LineupBlock:
        """The block at ``index`` with these opponents, role -> member id or "learner".

        Its games begin at ``start``; None: where the schedule says now. Raises PopulationError if the population has no
        such member.
        """
        role, seed = learner_of_block(self._seed, index, self._roles), derive_seed(self._seed, "block", index)
        opponents = tuple((seat, by_role[seat]) for seat in self.seats(index))
        members = [(seat, None if player == LEARNER else self._population[player]) for seat, player in opponents]
        return LineupBlock(
            index=index,
            block_id=block_name(index),
            role=role,
            opponents=opponents,
            num_generations=self._num_generations,
            seed=seed,
            lineup=lineup_digest(role, members),
            start=self._starts.draw(role, derive_seed(seed, "start")) if start is None else start,
            place=self._roles.index(role),
        )

    def drawable(self, newest_snapshot: int | None = None) -> tuple[Member, ...]:
        """Members that may be drawn for a block with this bound, by id.

        Of the snapshots, these are the newest ``opponents.max_snapshots`` (for specialists: per role), pinned ones
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

    def _candidates(self, members: Sequence[Member], seat: str) -> tuple[Member, ...]:
        """The members that may play ``seat``; one member for all other seats cannot be a specialist."""
        plays = (None,) if self._settings.lineup == "same" else (None, seat)
        candidates = tuple(member for member in members if member.country in plays)
        if not candidates:
            raise PopulationError(
                f"{self._population.path} has no member to play {seat}: every member that may be drawn plays another "
                f"{self._world.role_name} alone"
            )
        return candidates

    def _is_against_anchors(self, index: int, role: str) -> bool:
        order = sorted(self._roles, key=lambda each: derive_seed(self._seed, "anchors", each))
        number = number_of_block(index, self._roles)
        return is_against_anchors(self._settings.anchor_share, number, order.index(role), len(order))

    def _self_play_seats(self, index: int, role: str) -> frozenset[str]:
        """The learner's other seats: they move on by one seat per block, in an order of the role's own."""
        others = sorted(
            other_roles(role, self._roles), key=lambda seat: derive_seed(self._seed, "self-play", role, seat)
        )
        first = number_of_block(index, self._roles)
        return frozenset(others[(first + seat) % len(others)] for seat in range(self._settings.self_play_seats))
