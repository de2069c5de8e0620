"""Ratings from tables that all players share, on the Elo scale of ``opponents/ratings``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cluster.evaluation.tables.table import Played
from opponents.ratings.book import Rating, RatingBook
from opponents.ratings.game_score import GameScore
from services.environments.environment import RatingScale, World

# Bots that can fix the scale; the first at the tables does. Random comes first, because the scale is defined by it.
YARDSTICKS = ("random", "dumbbot", "hold", "greedy")


@dataclass(frozen=True, slots=True)
class Rated:
    """The ratings of all players of mixed tables."""

    ratings: tuple[Rating, ...]  # in the order of the players
    fixed: str | None  # the bot that fixes the scale; None: there is none, and the mean of all players is 1000


def rate_tables(world: World, names: Sequence[str], played: Sequence[Played]) -> Rated:
    """Rate the players ``names``, whose numbers the tables' seats have, by who finished where.

    One calibrated bot, ``random`` at 1000 points if it plays, keeps its strength; all others are rated again, also bots
    that have a calibrated strength. Without such a bot only differences mean something.

    Raises ValueError if the world does not say who finished where.
    """
    scale = world.rating_scale
    ids = [_player_id(name, world) for name in names]
    fixed = next((name for name in YARDSTICKS if name in names and f"bot/{name}" in scale.anchors), None)
    anchors = {} if fixed is None else {f"bot/{fixed}": scale.anchors[f"bot/{fixed}"]}
    book = RatingBook(world.roles, RatingScale(scale.worth, anchors, scale.base_shares))
    for each in played:
        if each.standing is None:
            raise ValueError(f"a game of {world.name} has no standing, so its players cannot be rated")
        book.record(GameScore({role: ids[number] for role, number in each.table.seats.items()}, each.standing))
    if fixed is None:
        return Rated(tuple(_centred(book, player) for player in ids), None)
    return Rated(tuple(map(book.rating, ids)), fixed)


def _player_id(name: str, world: World) -> str:
    return f"bot/{name}" if name in world.bots else f"player/{name}"


def _centred(book: RatingBook, player: str) -> Rating:
    """A rating relative to the mean of all rated players, which is put at the prior's mean."""
    belief, roles = book.belief, len(book.roles)
    own = np.array([1.0, *([1 / roles] * roles)])  # the strength, and the mean deviation over the roles
    weights = np.zeros(len(belief.mean))
    for each in book.players:
        weights[belief.rows(each)] -= own / len(book.players)
    weights[belief.rows(player)] += own
    mean, sigma = belief.estimate(weights, slice(0, len(weights)))
    return Rating(belief.prior.mu + mean, sigma, book.games.get(player, 0))
