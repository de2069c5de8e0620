"""Phases a second of whole games between random players, beside the plain loop over the engine."""

from __future__ import annotations

import random

from diplomacy import Game

from cluster.bench.figure import Figure, interleaved_seconds
from services.environments.diplomacy.game import DiplomacyGame

UNTIL_YEAR = 1910
GAMES = 4


def run(rounds: int) -> list[Figure]:
    """Time random games to the end of 1910, ``rounds`` alternating timings of the same games a side.

    Raises RuntimeError if the two loops play different games.
    """
    # Comparing the games also loads maps and tables before the timing.
    played = [play_ours(seed) for seed in range(GAMES)]
    if played != [play_plain(seed) for seed in range(GAMES)]:
        raise RuntimeError("the two loops played different games; their rates cannot be compared")
    phases = sum(count for count, _ in played)
    seconds = interleaved_seconds(
        {"ours": lambda: list(map(play_ours, range(GAMES))), "plain": lambda: list(map(play_plain, range(GAMES)))},
        rounds,
    )
    ours, plain = phases / seconds["ours"], phases / seconds["plain"]
    note = f"the same {GAMES} games of random players to {UNTIL_YEAR}, median of {rounds}"
    return [Figure("game loop", "phases/s", ours, plain, "plain loop over the engine", note=note)]


def play_ours(seed: int) -> tuple[int, str]:
    """Play a game between random players through ``DiplomacyGame``; returns its phases and final hash."""
    rng, game, phases = random.Random(seed), DiplomacyGame(UNTIL_YEAR), 0
    while not game.is_done:
        position = game.position
        for power in position.to_move:
            orders = [rng.choice(position.legal[place]) for place in sorted(position.orderable[power])]
            game.set_orders(power, orders[: abs(position.adjustments[power]) or None])
        game.process()
        phases += 1
    return phases, game.hash()


def play_plain(seed: int) -> tuple[int, str]:
    """Play the same game through the engine's public methods, with orders sorted so that the seed decides."""
    rng, game, phases = random.Random(seed), Game(), 0
    while not game.is_game_done and int(game.get_current_phase()[1:5]) <= UNTIL_YEAR:
        legal = game.get_all_possible_orders()
        for power, places in game.get_orderable_locations().items():
            if places:
                orders = [rng.choice(sorted(legal[place])) for place in places]
                if game.phase_type == "A":
                    orders = orders[: abs(len(game.powers[power].centers) - len(game.powers[power].units))]
                game.set_orders(power, orders)
        game.process()
        phases += 1
    return phases, game.get_hash()
