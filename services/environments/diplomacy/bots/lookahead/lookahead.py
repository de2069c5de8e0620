"""A bot that plays its candidate orders on against bots, and gives those after which it has most centres.

A third of the candidates is kept after each round, and meets further simulated games (after sequential halving, Karnin,
Koren and Somekh 2013, here with the same games for all of them). It takes the other powers for DumbBots, whatever they
are, unless it is told. It is slow: about 0.07 s for each movement phase, where DumbBot takes 0.1 ms.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from services.environments.diplomacy.bots.dumbbot import DumbBot
from services.environments.diplomacy.bots.greedy import GreedyBot
from services.environments.diplomacy.bots.lookahead.candidates import candidate_sheets, changed_sheet
from services.environments.diplomacy.bots.lookahead.compiled_games import CompiledGames
from services.environments.diplomacy.bots.lookahead.engine_games import SimulatedGame
from services.environments.diplomacy.bots.lookahead.seats import Others
from services.environments.diplomacy.bots.lookahead.simulation import Simulator
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.engine_position import read_position
from services.environments.playing import Bot

FURTHER_YEARS = 1  # games are played on to the end of the next year
# Candidates that are looked at, and further games for each of them; sheets that are proposed come on top in the first.
ROUNDS = ((24, 2), (8, 6), (3, 10))
LABEL_ROUNDS = ((40, 2), (14, 8), (5, 24))  # of decisions that are imitated: for two to three times the time
NEIGHBOURS = 4  # sheets one order away from the best one, which join after a round


@cache
def prepare() -> None:
    """Compile the simulated games, which takes some 20 s once after an installation and is kept on disk."""
    engine, bots = SimulatedGame(), (DumbBot(), GreedyBot())
    position = read_position(engine, str(engine.current_short_phase))
    games = CompiledGames(position, POWERS[0], bots, bots, position.year)
    games.centers(bots[1].actions(position, POWERS[0], 0), 0)


@dataclass(frozen=True, slots=True)
class Choice:
    """The best sheet, and the mean centres after every sheet that was looked at; a solo counts ``SOLO_CENTERS``."""

    actions: tuple[str, ...]
    values: Mapping[tuple[str, ...], float]


class LookaheadBot(Bot):
    """Chooses by simulated games."""

    is_slow = True

    def __init__(self, others: Others | None = None, rounds: Sequence[tuple[int, int]] = ROUNDS) -> None:
        """``others`` are the players that it expects in the other seats; DumbBots by default."""
        self._rounds = rounds
        self._own = (DumbBot(), GreedyBot())
        self.others: Others = others or (self._own[0],)

    def actions(self, position: Position, power: str, seed: int) -> tuple[str, ...]:
        """The sheet with the most centres at the end of the next year, on average."""
        return self.choose(position, power, seed).actions if position.orderable.get(power) else ()

    def improved(
        self, position: Position, power: str, played: tuple[str, ...], margin: float, seed: int
    ) -> tuple[str, ...]:
        """A sheet that is ``margin`` centres better than ``played``, a legal one, on average; else ``played``."""
        choice = self.choose(position, power, seed, played)
        gain = choice.values.get(choice.actions, 0.0) - choice.values.get(played, 0.0)
        return choice.actions if gain > margin else played

    def choose(
        self,
        position: Position,
        power: str,
        seed: int,
        played: tuple[str, ...] | None = None,
        proposed: Sequence[tuple[str, ...]] = (),
    ) -> Choice:
        """What it decides in a phase in which ``power`` has something to decide.

        ``played`` is a candidate that meets the games of all rounds, however it does; ``proposed`` are legal sheets
        that are candidates besides those of bots.
        """
        rng = random.Random(seed)
        count = self._rounds[0][0] + len(set(proposed))
        found = candidate_sheets(position, power, self._own, count, rng, proposed)
        if played is not None:
            count = self._rounds[0][0] // 2
            found = [played, *found, *(changed_sheet(position, power, played, rng) for _ in range(count))]
            found = list(dict.fromkeys(found))
        if len(found) == 1:
            return Choice(found[0], {})
        simulator = Simulator(position, power, self.others, self._own, position.year + FURTHER_YEARS)
        results: dict[tuple[str, ...], list[float]] = {orders: [] for orders in found}
        seeds: list[int] = []

        def value(orders: tuple[str, ...]) -> float:
            return sum(results[orders]) / max(1, len(results[orders]))

        def meet(orders: tuple[str, ...]) -> None:
            played = results.setdefault(orders, [])
            played.extend(simulator.centers(orders, each) for each in seeds[len(played) :])

        kept = found
        for number, (count, games) in enumerate(self._rounds, start=1):
            if number > 1:
                kept = sorted(kept, key=value, reverse=True)[:count]
            if played is not None and played not in kept:
                kept.append(played)
            seeds += [rng.getrandbits(62) for _ in range(games)]
            for orders in kept:
                meet(orders)
            if number == len(self._rounds):
                break
            best = max(kept, key=value)
            near = dict.fromkeys(changed_sheet(position, power, best, rng) for _ in range(NEIGHBOURS))
            for orders in near:
                if orders not in results:
                    meet(orders)
                    kept.append(orders)
        return Choice(max(kept, key=value), {orders: value(orders) for orders in results})
