"""Strategies of matchmaking: each weighs the members of the population that a draw may take."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opponents.matchmaking.anchors import anchors_among
from opponents.population.member import Member
from opponents.settings import OpponentsSettings

Weights = NDArray[np.float64]  # (N,) >= 0
NEAREST = 3  # members that may be drawn however far from the learner they are

# (members that may sit there, the learner's country) -> weights (N,), >= 0 with a sum above 0
Strategy = Callable[[Sequence[Member], str], Weights]


@dataclass(frozen=True, slots=True)
class OpponentStats:
    """What strategies ask of the run so far."""

    score: Callable[[str, str], float]  # (member id, the learner's country) -> its pairwise score, in [0, 1]
    rating: Callable[[str], float]  # player id, "learner" too -> mean rating
    rung: Callable[[str, Sequence[Member]], str]  # (the learner's country, members) -> id of whom it meets there


def by_weight(members: Sequence[Member], learner_power: str) -> Weights:  # noqa: ARG001
    """As the population says."""
    return np.array([member.weight for member in members])


def make_strategy(settings: OpponentsSettings, standings: OpponentStats, learner: str) -> Strategy:
    """The strategy of ``opponents.matchmaking``; ``learner`` is the learner's id among the ratings.

    What depends on results has ``opponents.min_draw_probability`` as a floor. Weights say how dear a member is beside
    what a strategy makes of it; ``uniform``, ``latest`` and ``curriculum`` ask only whether they are above 0.
    """

    def evenly(members: Sequence[Member], learner_power: str) -> Weights:  # noqa: ARG001
        return uniform(len(members))

    def latest(members: Sequence[Member], learner_power: str) -> Weights:
        versions = [member.version if member.is_own_snapshot else None for member in members]
        anchors = anchors_among(members, settings.anchors) or tuple(members)
        return newest(versions, by_weight(members, learner_power) * np.array([member in anchors for member in members]))

    def scores(members: Sequence[Member], learner_power: str) -> Weights:
        return np.array([standings.score(member.id, learner_power) for member in members])

    def pfsp_hard(members: Sequence[Member], learner_power: str) -> Weights:
        return by_weight(members, learner_power) * hard(scores(members, learner_power))

    def pfsp_variance(members: Sequence[Member], learner_power: str) -> Weights:
        return by_weight(members, learner_power) * variance(scores(members, learner_power))

    def near(members: Sequence[Member], learner_power: str) -> Weights:
        ratings = np.array([standings.rating(member.id) for member in members])
        window = rating_window(ratings, standings.rating(learner), settings.rating_window)
        return by_weight(members, learner_power) * window

    def curriculum(members: Sequence[Member], learner_power: str) -> Weights:
        rung = standings.rung(learner_power, members)
        return np.array([float(member.id == rung) for member in members])

    def floored(strategy: Strategy) -> Strategy:
        return lambda members, power: with_floor(strategy(members, power), settings.min_draw_probability)

    strategies: dict[str, Strategy] = {
        "weighted": by_weight,
        "uniform": evenly,
        "latest": latest,
        "pfsp_hard": floored(pfsp_hard),
        "pfsp_variance": floored(pfsp_variance),
        "rating_window": floored(near),
        "curriculum": floored(curriculum),
    }
    return strategies[settings.matchmaking]


def hard(scores: Weights) -> Weights:
    """(1 - p)²: whoever beats the learner, and the more so the surer it does."""
    return (1 - scores) ** 2


def variance(scores: Weights) -> Weights:
    """p (1 - p): the learner's equals, against whom a game's end is least certain."""
    return scores * (1 - scores)


def uniform(count: int) -> Weights:
    """Everybody alike, (N,)."""
    return np.ones(count)


def newest(versions: Sequence[int | None], otherwise: Weights) -> Weights:
    """The highest version alone; None is no snapshot. Without any, ``otherwise``."""
    known = [version for version in versions if version is not None]
    if not known:
        return otherwise
    return np.array([float(version == max(known)) for version in versions])


def with_floor(weights: Weights, floor: float) -> Weights:
    """Probabilities proportional to the weights, but none below ``floor`` (or 1 / N, where that is less).

    Each gets the floor, and the weights share out the rest, so their order stays.
    """
    count = len(weights)
    least = min(floor, 1 / count)
    total = weights.sum()
    shares = weights / total if total > 0 else np.full(count, 1 / count)
    return least + (1 - count * least) * shares


def draw_index(weights: Sequence[float] | Weights, seed: int) -> int:
    """One of N with probability proportional to its weight; ``seed`` is in [0, 2**63)."""
    bounds = list(itertools.accumulate(float(weight) for weight in weights))
    point = seed / 2**63 * bounds[-1]
    last = bisect.bisect_left(bounds, bounds[-1])  # that has a weight; the point may be rounded up to the end
    return min(bisect.bisect_right(bounds, point), last)


def rating_window(ratings: Weights, own: float, width: float) -> Weights:
    """1 for members within ``width`` of ``own`` and for the nearest three (and whoever ties with them), else 0."""
    distances = np.abs(ratings - own)
    within = max(width, float(np.sort(distances)[:NEAREST][-1]))
    return np.where(distances <= within, 1.0, 0.0)
