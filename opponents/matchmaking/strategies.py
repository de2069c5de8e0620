"""From the name of a strategy to a function that weighs the members of a draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from opponents.matchmaking.anchors import anchors_among
from opponents.matchmaking.prioritised import hard, variance
from opponents.matchmaking.weights import Weights, newest, uniform, with_floor
from opponents.matchmaking.window import rating_window
from opponents.population.population import Member
from opponents.settings import OpponentsSettings

# (members that may sit there, the learner's country) -> weights (N,), >= 0 with a sum above 0
Strategy = Callable[[Sequence[Member], str], Weights]


@dataclass(frozen=True, slots=True)
class Standings:
    """What strategies ask of the run so far."""

    score: Callable[[str, str], float]  # (member id, the learner's country) -> its pairwise score, in [0, 1]
    rating: Callable[[str], float]  # player id, "learner" too -> mean rating
    rung: Callable[[str, Sequence[Member]], str]  # (the learner's country, members) -> id of whom it meets there


def by_weight(members: Sequence[Member], learner_power: str) -> Weights:  # noqa: ARG001
    """As the population says."""
    return np.array([member.weight for member in members])


def make_strategy(settings: OpponentsSettings, standings: Standings, learner: str) -> Strategy:
    """The strategy of ``opponents.matchmaking``; ``learner`` is the learner's id among the ratings.

    What depends on results has ``opponents.min_draw_probability`` as a floor. Weights say how dear a member is beside
    what a strategy makes of it; ``uniform``, ``latest`` and ``curriculum`` ask only whether they are above 0.
    """

    def evenly(members: Sequence[Member], learner_power: str) -> Weights:  # noqa: ARG001
        return uniform(len(members))

    def latest(members: Sequence[Member], learner_power: str) -> Weights:
        own = [member.kind == "policy" and member.source is None for member in members]  # not of another run
        versions = [member.version if made else None for member, made in zip(members, own, strict=True)]
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
