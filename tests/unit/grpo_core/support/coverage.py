"""How often intervals hold a known truth, in simulated games: cases with the coverage that each of them has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from grpo_core.statistics.boundaries import Boundary
from grpo_core.statistics.estimate import CENTERS, Estimate, Range, difference
from grpo_core.statistics.improvement import paired_probability_of_improvement, probability_of_improvement
from grpo_core.statistics.means import stratified_mean
from grpo_core.statistics.mixed_tables import Seat, mixed_difference, mixed_mean, mixed_rate, mixed_rate_difference
from grpo_core.statistics.paired import stratified_paired_difference
from grpo_core.statistics.paired_rates import stratified_paired_rate_difference
from grpo_core.statistics.rates import stratified_rate
from grpo_core.statistics.sequential import SequentialDesign
from tests.unit.grpo_core.support import simulated_games
from tests.unit.grpo_core.support.simulated_games import COUNTRIES, SOLO

APART: Range = (-34.0, 34.0)
NOMINAL = (0.93, 0.97)
UNEQUAL = (10, 12, 20, 30, 50, 80, 100)  # games of each country

Data = Sequence[NDArray[np.generic]]  # of each country, (repetitions, games)
Held = Iterator[bool | None]  # whether each repetition's interval holds the truth; None without an interval
Simulation = Callable[[int, np.random.Generator], Held]
AtLevel = Callable[[float], Estimate | None]


@dataclass(frozen=True)
class Case:
    """What is simulated, and between which shares of its intervals hold the truth."""

    name: str
    simulate: Simulation
    band: tuple[float, float] = NOMINAL


def coverage(case: Case, repetitions: int, seed: int = 0) -> tuple[float, float]:
    """The share of intervals that hold the truth, and the share of repetitions that have one."""
    held = [each for each in case.simulate(repetitions, np.random.default_rng(seed)) if each is not None]
    return sum(held) / len(held), len(held) / repetitions


def even(games: int) -> tuple[int, ...]:
    """As many games of each country."""
    return (games,) * len(COUNTRIES)


def holds(estimate: Estimate | None, truth: float) -> bool | None:
    """Whether the interval holds the truth, up to rounding; None without one."""
    if estimate is None or estimate.interval is None:
        return None
    return estimate.interval[0] - 1e-12 <= truth <= estimate.interval[1] + 1e-12


def strata(data: Data, repetition: int, games: int | None = None) -> dict[str, list[float]]:
    """One repetition's values by country, of the first games."""
    return {name: own[repetition, :games].tolist() for name, own in zip(COUNTRIES, data, strict=True)}


def solos(data: Data) -> Data:
    """Whether each game is a solo."""
    return [own >= SOLO for own in data]


def mean(strength: float, games: Sequence[int]) -> Simulation:
    """Mean centres of one player."""

    def simulate(repetitions: int, rng: np.random.Generator) -> Held:
        data, truth = simulated_games.play_alone(strength, games, repetitions, rng), simulated_games.true_mean(strength)
        return (holds(stratified_mean(strata(data, row), CENTERS), truth) for row in range(repetitions))

    return simulate


def rate(rates: Sequence[float], games: Sequence[int]) -> Simulation:
    """A rate that differs between countries."""

    def simulate(repetitions: int, rng: np.random.Generator) -> Held:
        data = [rng.random((repetitions, count)) < p for p, count in zip(rates, games, strict=True)]
        return (holds(stratified_rate(strata(data, row)), float(np.mean(rates))) for row in range(repetitions))

    return simulate


def pair_estimator(measure: str, before: Data, after: Data, row: int, games: int | None = None) -> AtLevel:
    """What compares two players at the same tables, at a level that is still open."""
    compare = {
        "centers": partial(stratified_paired_difference, within=APART),
        "solos": stratified_paired_rate_difference,
        "better": paired_probability_of_improvement,
    }[measure]
    old, new = strata(before, row, games), strata(after, row, games)
    return lambda level: compare(old, new, level=level)


def independent_estimator(measure: str, before: Data, after: Data, row: int, games: int | None = None) -> AtLevel:
    """What compares two players in games of their own, at a level that is still open."""
    old, new = strata(before, row, games), strata(after, row, games)

    def at_level(level: float) -> Estimate | None:
        if measure == "better":
            return probability_of_improvement(old, new, level=level)
        if measure == "solos":
            one, other = stratified_rate(old, level=level), stratified_rate(new, level=level)
        else:
            one, other = stratified_mean(old, CENTERS, level=level), stratified_mean(new, CENTERS, level=level)
        return None if one is None or other is None else difference(one, other)

    return at_level


def true_comparison(measure: str, strength: float, shared: float) -> float:
    """The true difference, or probability to be better, of a player of this strength over one of strength 1."""
    if measure == "better":
        return simulated_games.true_improvement(strength, shared)
    if measure == "solos":
        rates = simulated_games.true_solo_rates
        return (1 - shared) * float(rates(strength).mean() - rates(1.0).mean())
    return (1 - shared) * (simulated_games.true_mean(strength) - simulated_games.true_mean(1.0))


def compared(measure: str, strength: float, games: Sequence[int], shared: float | None = None) -> Simulation:
    """Two players: at the same tables, of which a share are ties, or with games of their own without ``shared``."""

    def simulate(repetitions: int, rng: np.random.Generator) -> Held:
        before, after = simulated_games.play_pairs(strength, shared or 0.0, games, repetitions, rng)
        if measure == "solos":
            before, after = solos(before), solos(after)
        estimator = independent_estimator if shared is None else pair_estimator
        truth = true_comparison(measure, strength, shared or 0.0)
        return (holds(estimator(measure, before, after, row)(0.95), truth) for row in range(repetitions))

    return simulate


def mixed(measure: str, strengths: Sequence[float], games: int) -> Simulation:
    """The first player and the last one of tables at which all sit; seatings are drawn, so numbers of seats differ."""

    def simulate(repetitions: int, rng: np.random.Generator) -> Held:
        ways, last = simulated_games.seatings(len(strengths)), len(strengths) - 1
        player = ways[rng.integers(len(ways), size=(repetitions, games))]
        values = simulated_games.play_tables(np.asarray(strengths)[player], rng)
        is_rate = "rate" in measure
        if is_rate:
            values = values >= SOLO
        truths = [simulated_games.true_mixed(strengths, each)[is_rate] for each in (0, last)]

        def seats(row: int, own: int) -> list[Seat]:
            places = zip(*(axis.tolist() for axis in np.nonzero(player[row] == own)), strict=True)
            return [Seat(game, COUNTRIES[seat], float(values[row, game, seat])) for game, seat in places]

        for row in range(repetitions):
            if measure == "mean":
                yield holds(mixed_mean(seats(row, 0), COUNTRIES, CENTERS), truths[0])
            elif measure == "rate":
                yield holds(mixed_rate(seats(row, last), COUNTRIES), truths[1])
            else:
                compare = mixed_rate_difference if is_rate else mixed_difference
                yield holds(compare(seats(row, 0), seats(row, last), COUNTRIES), truths[1] - truths[0])

    return simulate


@dataclass(frozen=True)
class Looks:
    """A comparison that is looked at several times: where its intervals are to hold, and when it stops."""

    boundary: Boundary
    strength: float
    shared: float | None
    most: int = 20
    looks: int = 4
    measure: str = "centers"
    at_stop: bool = False  # at the look where one stops; else at all looks together
    half_width: float | None = None
    null: float | None = 0.0

    def __call__(self, repetitions: int, rng: np.random.Generator) -> Held:
        """Simulate it."""
        design = SequentialDesign(self.looks, self.boundary)
        truth = true_comparison(self.measure, self.strength, self.shared or 0.0)
        before, after = simulated_games.play_pairs(self.strength, self.shared or 0.0, even(self.most), repetitions, rng)
        if self.measure == "solos":
            before, after = solos(before), solos(after)
        estimator = independent_estimator if self.shared is None else pair_estimator
        for row in range(repetitions):
            held: list[bool | None] = []
            for look, games in enumerate(design.schedule(self.most), start=1):
                estimate = design.repeated_interval(estimator(self.measure, before, after, row, games), look)
                held.append(holds(estimate, truth))
                if self.at_stop and design.is_finished(estimate, look, self.half_width, self.null):
                    break
            yield held[-1] if self.at_stop else False not in held
