"""Simulated games that a decision is valued by, a second: machine code beside the engine with the bots in Python."""

from __future__ import annotations

from functools import partial

from cluster.bench.figure import Figure, interleaved_seconds
from cluster.bench.system.bots import dumbbot_positions
from services.environments.diplomacy.bots.dumbbot import DumbBot
from services.environments.diplomacy.bots.greedy import GreedyBot
from services.environments.diplomacy.bots.lookahead.compiled_games import CompiledGames
from services.environments.diplomacy.bots.lookahead.engine_games import EngineGames
from services.environments.diplomacy.position import Position

UNTIL_YEAR = 1908
EVERY = 4  # one position in so many is played on, to the end of the next year
GAMES = 20  # for each of them
TOLERANCE = 0.5  # centres, on average: some eight standard errors


def run(rounds: int) -> list[Figure]:
    """Time the games, ``rounds`` alternating timings a side.

    Raises RuntimeError if the two sides' games end with other numbers of centres.
    """
    positions = [each for each in dumbbot_positions(seed=1, until_year=UNTIL_YEAR) if each.kind == "M"][::EVERY]
    sides = {"ours": partial(_play, CompiledGames, positions), "reference": partial(_play, EngineGames, positions)}
    ours, reference = (play() for play in sides.values())  # the first call compiles
    if abs(ours - reference) > TOLERANCE:
        raise RuntimeError(f"simulated games end with {ours:.2f} and {reference:.2f} centres; they are not the same")
    seconds = interleaved_seconds(sides, rounds)
    games = len(positions) * GAMES
    note = f"{games} games from {len(positions)} positions to the end of the next year, median of {rounds}"
    yardstick = "the engine, bots in Python"
    rate = {name: games / value for name, value in seconds.items()}
    return [Figure("simulated games", "games/s", rate["ours"], rate["reference"], yardstick, note=note)]


def _play(kind: type[CompiledGames] | type[EngineGames], positions: list[Position]) -> float:
    """The mean centres at the ends of all games, of powers in turn."""
    total, bot, both = 0, DumbBot(), (DumbBot(), GreedyBot())
    for number, position in enumerate(positions):
        power = position.to_move[number % len(position.to_move)]
        games = kind(position, power, (bot,), both, position.year + 1)
        orders = bot.actions(position, power, number)
        total += sum(games.centers(orders, seed) for seed in range(GAMES))
    return total / (len(positions) * GAMES)
