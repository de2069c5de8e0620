"""The likelihood of a finishing order, given the strengths of its seats: Plackett-Luce, with ties.

The places are filled from the first to the last; each time, one of the seats without a place is drawn with probability
proportional to exp(strength) (Luce 1959, Plackett 1975). So seat i finishes above seat j with probability
1 / (1 + exp(s_j - s_i)), whatever the other seats are.

Tied seats take every order among themselves with equal weight, so a tie between two counts as half a win for each. If
more than ``MOST_TIED_EXACTLY`` are tied, which have too many orders, only the rotations of one order and of its reverse
are taken: of two seats, each is before the other in half of them too. If the order within the last place is unknown
("open"), that place is left out.

S is the number of seats, in the order of the world's roles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from opponents.ratings.game_score import GameScore

Array = NDArray[np.float64]
MOST_TIED_EXACTLY = 8
_NEWTON_STEPS = 50
_LAST_STEP = 1e-5  # the error after a Newton step is about its square
_REFINEMENTS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """The draws of one finishing order, R of them, over S seats."""

    among: Array  # (R, S) 1 for seats without a place yet, else 0
    weight: Array  # (R,) share of the tied orders in which this draw was made
    drawn: Array  # (S,) draws of each seat: 1, or 0 in an open last place


def draws_of(score: GameScore, roles: Sequence[str]) -> Draws:
    """The draws that led to a game's places; ``roles`` are its seats, in the order of the axes."""
    number = {role: index for index, role in enumerate(roles)}
    places = tuple(tuple(sorted(number[role] for role in place)) for place in score.places)
    return _draws(places, score.last_is_open)


@lru_cache(maxsize=4096)
def _draws(places: Sequence[Sequence[int]], last_is_open: bool) -> Draws:
    seats = sum(map(len, places))
    among: list[list[float]] = []
    weights: list[float] = []
    drawn = np.zeros(seats)
    waiting = set(range(seats))
    for number, place in enumerate(places):
        if last_is_open and number == len(places) - 1:
            break
        drawn[list(place)] = 1.0
        for placed, weight in _placed_before(place):
            left = waiting.difference(placed)
            among.append([float(seat in left) for seat in range(seats)])
            weights.append(weight)
        waiting.difference_update(place)
    return Draws(np.array(among).reshape(-1, seats), np.array(weights), drawn)


def _placed_before(place: Sequence[int]) -> Iterator[tuple[Sequence[int], float]]:
    """The tied seats that are placed already at each draw among them, with the share of the orders where they are."""
    tied = len(place)
    if tied <= MOST_TIED_EXACTLY:
        for count in range(tied):  # each subset of a size counts alike
            for placed in combinations(place, count):
                yield placed, 1 / comb(tied, count)
        return
    for order in (place, place[::-1]):
        for first in range(tied):
            rotated = (*order[first:], *order[:first])
            for count in range(tied):
                yield rotated[:count], 1 / (2 * tied)


def log_likelihood(draws: Draws, strengths: Array) -> float:
    """Mean log-probability of the orders that the places admit; ``strengths`` (S,)."""
    top = strengths.max()
    totals = draws.among @ np.exp(strengths - top)
    return float(draws.drawn @ (strengths - top) - draws.weight @ np.log(totals))


def gradient_and_curvature(draws: Draws, strengths: Array) -> tuple[Array, Array]:
    """Gradient (S,) of the log-likelihood in the strengths, and its negative second derivative (S, S)."""
    chances = draws.among * np.exp(strengths - strengths.max())
    chances /= chances.sum(axis=1, keepdims=True)
    weighted = draws.weight[:, None] * chances
    expected = weighted.sum(axis=0)
    return draws.drawn - expected, np.diag(expected) - chances.T @ weighted


def posterior(draws: Draws, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """One game's update of the strengths' normal distribution, whose covariance may be singular.

    It finds the normal distribution nearest to the posterior in Kullback-Leibler divergence (Opper and Archambeau
    2009), from the means of gradient and curvature over it, taken at 2 S points. It starts at the likeliest
    strengths; a Laplace approximation there would be overconfident and, over many games, biased.

    Returns ``pull`` (S,) and ``information`` (S, S): the new mean is ``mean + covariance @ pull``, and the new
    covariance ``covariance - covariance @ information @ covariance``.
    """
    one = np.eye(len(mean))
    pull = likeliest(draws, mean, covariance)
    _, curvature = gradient_and_curvature(draws, mean + covariance @ pull)
    for _ in range(_REFINEMENTS):
        narrowed = covariance - covariance @ _solve(one + curvature @ covariance, curvature) @ covariance
        center = covariance @ pull
        gradient, curvature = _mean_gradient_and_curvature(draws, mean + center, narrowed)
        pull = _solve(one + curvature @ covariance, gradient + curvature @ center)
    return pull, _solve(one + curvature @ covariance, curvature)


def likeliest(draws: Draws, mean: Array, covariance: Array) -> Array:
    """``pull`` (S,) to the highest posterior density, ``mean + covariance @ pull``: Newton's method, halving steps."""

    def objective(pull: Array) -> float:
        return log_likelihood(draws, mean + covariance @ pull) - float(pull @ covariance @ pull) / 2

    pull: Array = np.zeros(len(mean))
    best = objective(pull)
    for _ in range(_NEWTON_STEPS):
        moved = covariance @ pull
        gradient, curvature = gradient_and_curvature(draws, mean + moved)
        step = _solve(np.eye(len(mean)) + curvature @ covariance, gradient + curvature @ moved) - pull
        if float(np.abs(step).max()) < _LAST_STEP:
            return pull + step
        size = 1.0
        while (reached := objective(pull + size * step)) < best and size > _LAST_STEP:
            size /= 2
        pull += size * step
        best = reached
    return pull


def _mean_gradient_and_curvature(draws: Draws, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Means over a normal distribution of strengths, by the cubature rule of degree three (exact for cubics)."""
    seats = len(mean)
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    root = (vectors * np.sqrt(seats * np.maximum(values, 0.0))).T
    strengths = np.concatenate([mean + root, mean - root])  # (2 S, S)
    chances = draws.among * np.exp(strengths - strengths.max(axis=1, keepdims=True))[:, None, :]  # (2 S, R, S)
    chances /= chances.sum(axis=2, keepdims=True)
    weighted = draws.weight[:, None] * chances / len(strengths)
    expected = weighted.sum(axis=(0, 1))
    curvature = np.diag(expected) - chances.reshape(-1, seats).T @ weighted.reshape(-1, seats)
    return draws.drawn - expected, curvature


def _solve(matrix: Array, right: Array) -> Array:
    return np.asarray(np.linalg.solve(matrix, right), np.float64)
