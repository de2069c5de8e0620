"""Rating matches: draws their seats, and plays them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from grpo_core.seeds import derive_seed
from opponents.play import play_game
from opponents.ratings.game_score import GameScore
from services.environments.environment import World
from services.environments.playing import Policy


@dataclass(frozen=True, slots=True)
class RatingGame:
    """One match to play."""

    seats: Mapping[str, str]  # role -> player
    seed: int


def rating_games(
    players: Mapping[str, str | None], games_per_role: int, seed: int, roles: Sequence[str]
) -> list[RatingGame]:
    """Draw mixed games in which each player has each role ``games_per_role`` times, among shuffled neighbours.

    ``players`` maps an id to the only one of ``roles`` that it plays, or to None for any. If a role has fewer players
    than others, its players repeat until all games are full.

    Raises ValueError if a role has no player.
    """
    columns = {role: sorted(player for player, only in players.items() if only in (None, role)) for role in roles}
    if empty := [role for role, column in columns.items() if not column]:
        raise ValueError(f"no player for {', '.join(empty)}")
    games = games_per_role * max(map(len, columns.values()))
    seats = {role: _passes(column, games, derive_seed(seed, "seats", role)) for role, column in columns.items()}
    return [
        RatingGame({role: seats[role][number] for role in roles}, derive_seed(seed, "game", number))
        for number in range(games)
    ]


def _passes(players: Sequence[str], length: int, seed: int) -> list[str]:
    """Draw ``length`` names: all players in a random order, then again in another order, and so on."""
    shuffled, drawn = random.Random(seed), list[str]()
    while len(drawn) < length:
        drawn += shuffled.sample(players, len(players))
    return drawn[:length]


async def play_rating_game(match: RatingGame, players: Mapping[str, Policy], world: World) -> GameScore:
    """Play one match to its end, from a start that a new schedule of the world draws.

    Raises ValueError if the world does not say who finished where.
    """
    role = world.roles[match.seed % len(world.roles)]  # starts are drawn for a role; here no role is the learner's
    start = world.starts().draw(role, derive_seed(match.seed, "start"))
    game = world.new_game(start, role, match.seed, game_id=f"rating-{match.seed}")
    record = await play_game(game, {seat: players[player] for seat, player in match.seats.items()}, match.seed)
    if record.result.standing is None:
        raise ValueError(f"a game of {world.name} has no standing, so its players cannot be rated")
    return GameScore(match.seats, record.result.standing)


async def play_in_order(
    games: Sequence[RatingGame],
    players: Mapping[str, Policy],
    world: World,
    at_once: int,
    rated: Callable[[GameScore], None],
) -> None:
    """Play matches, ``at_once`` of them concurrently, and call ``rated`` in the order of ``games``.

    The order makes an interrupted rating keep the first matches, not those that ended first.
    """
    running = asyncio.Semaphore(at_once)
    done: dict[int, GameScore] = {}
    next_rated = 0

    async def play_one(number: int, game: RatingGame) -> None:
        nonlocal next_rated
        async with running:
            done[number] = await play_rating_game(game, players, world)
        while next_rated in done:
            rated(done.pop(next_rated))
            next_rated += 1

    await asyncio.gather(*(play_one(number, game) for number, game in enumerate(games)))
