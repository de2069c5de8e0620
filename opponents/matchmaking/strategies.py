"""Matchmaking strategies: each gives weights to the members that may be drawn for a seat.

The prioritised ones (``pfsp_*``) are the self-play weightings of AlphaStar (Vinyals et al., Nature 575, 2019).
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opponents.population.member import Member
from opponents.settings import OpponentsSettings, member_id
from services.inference.engine import LEARNER

Weights = NDArray[np.float64]  # (N,) >= 0
NEAREST = 3  # members that may be drawn under rating_window however far from the learner they are

# (members that may be drawn, the learner's role) -> weights (N,), >= 0 with a sum above 0
Strategy = Callable[[Sequence[Member], str], Weights]


@dataclass(frozen=True, slots=True)
class OpponentStats:
    """The results of the run that strategies use."""

    score: Callable[[str, str], float]  # (member id, the learner's role) -> the learner's pairwise score in [0, 1]
    rating: Callable[[str], float]  # player id, "learner" too -> mean rating
    curriculum: Callable[[str, Sequence[Member]], str]  # (the learner's role, members) -> member id


def make_strategy(settings: OpponentsSettings, stats: OpponentStats) -> Strategy:
    """The strategy that ``opponents.matchmaking`` names.

    Strategies that depend on results have the floor ``opponents.min_draw_probability``. They multiply the members'
    configured weights; ``uniform``, ``latest`` and ``curriculum`` use only whether these are above 0.
    """

    def latest(members: Sequence[Member], role: str) -> Weights:  # noqa: ARG001
        newest = max((member.version for member in members if member.is_own_snapshot), default=None)
        if newest is not None:
            return np.array([float(member.is_own_snapshot and member.version == newest) for member in members])
        anchors = anchors_among(members, settings.anchors) or tuple(members)
        return np.array([member.weight * (member in anchors) for member in members])

    def scores(members: Sequence[Member], role: str) -> Weights:
        return np.array([stats.score(member.id, role) for member in members])

    def near(members: Sequence[Member], role: str) -> Weights:
        ratings = np.array([stats.rating(member.id) for member in members])
        window = rating_window(ratings, stats.rating(LEARNER), settings.rating_window)
        return by_weight(members, role) * window

    def curriculum(members: Sequence[Member], role: str) -> Weights:
        opponent = stats.curriculum(role, members)
        return np.array([float(member.id == opponent) for member in members])

    without_results: dict[str, Strategy] = {
        "weighted": by_weight,
        "uniform": lambda members, _: np.ones(len(members)),
        "latest": latest,
    }
    if settings.matchmaking in without_results:
        return without_results[settings.matchmaking]
    by_results: dict[str, Strategy] = {
        "pfsp_hard": lambda members, role: by_weight(members, role) * hard(scores(members, role)),
        "pfsp_variance": lambda members, role: by_weight(members, role) * variance(scores(members, role)),
        "rating_window": near,
        "curriculum": curriculum,
    }
    strategy = by_results[settings.matchmaking]
    return lambda members, role: with_floor(strategy(members, role), settings.min_draw_probability)


def by_weight(members: Sequence[Member], role: str) -> Weights:  # noqa: ARG001
    """The weights that the population gives."""
    return np.array([member.weight for member in members])


def hard(scores: Weights) -> Weights:
    """(1 - p)²: more weight for members that beat the learner more surely."""
    return (1 - scores) ** 2


def variance(scores: Weights) -> Weights:
    """p (1 - p): more weight for the learner's equals, against whom the end of a game is least certain."""
    return scores * (1 - scores)


def rating_window(ratings: Weights, own: float, width: float) -> Weights:
    """1 for members within ``width`` of ``own``, for the nearest three and for ties with these; else 0."""
    distances = np.abs(ratings - own)
    within = max(width, float(np.sort(distances)[:NEAREST][-1]))
    return np.where(distances <= within, 1.0, 0.0)


def with_floor(weights: Weights, floor: float) -> Weights:
    """Probabilities proportional to the weights, but none below ``floor`` (or 1 / N, if that is less).

    Each member gets the floor, and the weights divide the rest, so the order of the weights stays.
    """
    count = len(weights)
    least = min(floor, 1 / count)
    total = weights.sum()
    shares = weights / total if total > 0 else np.full(count, 1 / count)
    return least + (1 - count * least) * shares


def anchors_among(members: Sequence[Member], named: Sequence[str]) -> tuple[Member, ...]:
    """The members that ``opponents.anchors`` names; all bots if it names none."""
    if not named:
        return tuple(member for member in members if member.kind == "bot")
    ids = {member_id(name) for name in named}
    return tuple(member for member in members if member.id in ids)


def draw_index(weights: Sequence[float] | Weights, seed: int) -> int:
    """An index below N, with probability proportional to its weight; ``seed`` is in [0, 2**63)."""
    bounds = list(itertools.accumulate(float(weight) for weight in weights))
    point = seed / 2**63 * bounds[-1]
    last = bisect.bisect_left(bounds, bounds[-1])  # the last index with a weight; the point may round up to the end
    return min(bisect.bisect_right(bounds, point), last)
