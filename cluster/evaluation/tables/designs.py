"""Which tables measure players: one against copies of another, or all of them mixed at every table."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

from cluster.evaluation.tables.table import Table
from grpo_core.seeds import derive_seed
from services.environments.environment import World
from services.environments.settings import EvaluationSettings


def one_against_others(
    world: World, settings: EvaluationSettings, player: int, anchors: Sequence[int], anchor_name: str, seed: int
) -> list[Table]:
    """List the games of one player in each role against an anchor in all other seats, round by round.

    Several ``anchors`` share the other seats of every game evenly, in an order that each game draws; those for whom a
    seat is left over take turns. The games depend on the anchor's name and the seed alone, so that all players meet the
    same ones.
    """
    tables = []
    for game in world.evaluation_games(settings, anchor_name, seed):
        seats = dict.fromkeys(world.roles, player) if world.has_opponents else {game.role: player}
        others = [role for role in seats if role != game.role]
        dealt = _dealt(len(anchors), len(others), game.number, game.seed) if others else ()
        seats.update((role, anchors[place]) for role, place in zip(others, dealt, strict=True))
        made = Table(game.number, seats, (game.role,), game.role, game.start, game.seed, game.temperature)
        tables.append(made)
    return tables


def mixed_tables(world: World, players: int, games_per_role: int, seed: int) -> list[Table]:
    """List games in which all players sit at every table, each in each role about ``games_per_role`` times.

    A cycle has as many games as there are roles. The players are dealt to the seats at random, as evenly as the seats
    allow (of seven seats, three players have two or three), and then every game of the cycle moves all of them on by
    one seat. So in a cycle each player has each role equally often. Who gets the seats that are left over rotates from
    cycle to cycle. There are as many whole cycles as give every player at least ``games_per_role`` seats in each role.

    Raises ValueError for a world without opponents, or with more players than seats or fewer than two.
    """
    roles = tuple(world.roles)
    if not world.has_opponents or not 2 <= players <= len(roles):
        raise ValueError(f"mixed tables need 2 to {len(roles)} players in a world with opponents, not {players}")
    starts = world.starts()
    tables: list[Table] = []
    had = [0] * players  # seats in each role
    for cycle in itertools.count():
        if min(had) >= games_per_role:
            return tables
        dealt = list(_dealt(players, len(roles), cycle, seed))
        for player in dealt:
            had[player] += 1
        for turn in range(len(roles)):
            seats = {role: dealt[(place + turn) % len(roles)] for place, role in enumerate(roles)}
            own = derive_seed(seed, "mixed tables", cycle, turn)
            tables.append(Table(cycle, seats, roles, roles[0], starts.draw(roles[0], own), own))
    raise AssertionError("the count of cycles has no end")


def _dealt(players: int, seats: int, cycle: int, seed: int) -> Iterator[int]:
    """A player for each seat: all of them equally often, and the seats that are left over in rotation."""
    left = seats % players
    extra = [(cycle * left + each) % players for each in range(left)]
    dealt = [*(list(range(players)) * (seats // players)), *extra]
    random.Random(derive_seed(seed, "mixed seats", cycle)).shuffle(dealt)
    yield from dealt


def rounds(tables: Sequence[Table]) -> list[list[Table]]:
    """The tables by their ``number``, in order; a whole round has every role equally often."""
    ordered = sorted(tables, key=lambda table: table.number)
    return [list(own) for _, own in itertools.groupby(ordered, key=lambda table: table.number)]
