"""Positions of random games, for properties of press."""

from __future__ import annotations

import random
from collections.abc import Iterator

from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import Position


def random_orders(position: Position, power: str, rng: random.Random) -> tuple[str, ...]:
    """One legal order for every unit."""
    return tuple(rng.choice(position.legal[place]) for place in position.orderable.get(power, ()))


def movement_positions(seed: int, count: int) -> Iterator[Position]:
    """The first movement phases of a game of random orders."""
    rng, game = random.Random(seed), DiplomacyGame(1910)
    while count and not game.is_done:
        position = game.position
        if position.kind == "M":
            count -= 1
            yield position
        game.step({power: random_orders(position, power, rng) for power in position.to_move})
