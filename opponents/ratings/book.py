"""Bayesian ratings with uncertainties, from the finishing orders of whole games.

The strength of a seat is the player's strength, plus the country's worth, plus the player's deviation as this country;
``likelihood`` gives the places that follow. All these values have one joint normal distribution, which every game
updates. So a player may have several seats, weak countries do not lower a player's rating, and the learner's games also
rate its frozen copies, with decreasing effect as the learner changes.

Ratings are in points of the Elo scale: 400 points are odds of ten to one to finish above. ``bot/random`` is at 1000.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from opponents.population.member import PopulationError
from opponents.ratings.belief import BLOCK, PRIOR, Belief, Prior
from opponents.ratings.calibration import ANCHORS, COUNTRY_POINTS
from opponents.ratings.game_score import GameScore
from opponents.ratings.likelihood import SEATS, Array, draws_of, posterior
from services.environments.diplomacy.position import POWERS

POINTS = 400 / math.log(10)  # per unit of strength, which is a natural logarithm of odds


class RatingsError(PopulationError):
    """A player cannot be rated as asked, or a ratings file is missing or damaged."""


@dataclass(frozen=True, slots=True)
class Rating:
    """The belief about a strength, in points: normal with mean ``mu`` and standard deviation ``sigma``."""

    mu: float
    sigma: float
    games: int  # that the player played; for one country, the seats it had there

    @property
    def interval(self) -> tuple[float, float]:
        """The central 95 % interval."""
        return self.mu - 1.96 * self.sigma, self.mu + 1.96 * self.sigma


class RatingBook:
    """Ratings of players by id. Anchors are fixed: games never change them.

    The time to record a game and the size of the file grow with the square of the number of players, without anchors.
    """

    def __init__(
        self,
        anchors: Mapping[str, Mapping[str, float]] = ANCHORS,
        prior: Prior = PRIOR,
        countries: Mapping[str, float] = COUNTRY_POINTS,
    ) -> None:
        """Start without games; ``anchors`` are id -> power -> points, ``countries`` power -> worth by the prior."""
        self.anchors = {player: {power: float(of[power]) for power in POWERS} for player, of in anchors.items()}
        self.belief = Belief(prior, countries)
        self.games: dict[str, int] = {}  # number of games of each player or anchor
        self.seats: dict[str, list[int]] = {}  # number of seats of each player, by country in the order of POWERS

    @property
    def players(self) -> tuple[str, ...]:
        """The players that games rate, in the order they joined; without the anchors."""
        return tuple(self.belief.players)

    def add(self, player: str, like: str | None = None) -> None:
        """Add a player, or a frozen copy of ``like``; RatingsError if it is rated already, or ``like`` is not."""
        if player in self.anchors or player in self.belief.players:
            raise RatingsError(f"{player} is rated already")
        if like is not None and like not in self.belief.players:
            raise RatingsError(f"{player} cannot begin as a copy of {like}, which no game rates")
        self.belief.add(player, like)

    def remove(self, players: Iterable[str]) -> None:
        """Remove players and their counts; what their games told about others stays. Unknown ids are ignored."""
        for player in players:
            self.games.pop(player, None)
            self.seats.pop(player, None)
            if player in self.belief.players:
                self.belief.remove(player)

    def drift(self, player: str, updates: int = 1, *, tau: float = 5.0, memory: float = 0.99) -> None:
        """Widen the uncertainty of a player after updates of its weights; an unknown player is added.

        In one update its strength changes by a standard deviation of ``tau`` points, and the share ``memory`` of its
        deviations by country remains.
        """
        if player not in self.belief.players:
            self.belief.add(player)
        self.belief.drift(player, updates, tau, memory)

    def record(self, score: GameScore) -> None:
        """Update the ratings by a finished game; unknown players are added."""
        for player in dict.fromkeys(score.seats[power] for power in POWERS):
            if player not in self.anchors and player not in self.belief.players:
                self.belief.add(player)
            self.games[player] = self.games.get(player, 0) + 1
        for number, power in enumerate(POWERS):
            self.seats.setdefault(score.seats[power], [0] * SEATS)[number] += 1
        mean, across, covariance = self.strengths(score.seats)
        self.belief.learn(across, *posterior(draws_of(score), mean, covariance))

    def rating(self, player: str, country: str | None = None) -> Rating:
        """A player's strength in the mean over the seven countries, or as one of them, without the country's worth.

        Anchors are exact; an unknown player has the prior.
        """
        if country is None:
            games = self.games.get(player, 0)
            weights = np.full(BLOCK, 1 / SEATS)
        else:
            where = POWERS.index(country)
            games = self.seats[player][where] if player in self.seats else 0
            weights = np.eye(BLOCK)[1 + where]
        if player in self.anchors:
            points = self.anchors[player]
            return Rating(math.fsum(points.values()) / SEATS if country is None else points[country], 0.0, games)
        weights[0] = 1.0
        belief = self.belief if player in self.belief.players else self.belief.copy_with(player)
        return Rating(*belief.estimate(weights, belief.rows(player)), games)

    def country(self, power: str) -> Rating:
        """A country's worth relative to the mean of the seven, points."""
        weights = np.full(SEATS, -1 / SEATS)
        weights[POWERS.index(power)] += 1.0
        games = sum(seats[POWERS.index(power)] for seats in self.seats.values())
        return Rating(*self.belief.estimate(weights, slice(0, SEATS)), games)

    def strengths(self, seats: Mapping[str, str]) -> tuple[Array, Array, Array]:
        """The seats' means (7,), covariance with the whole belief (D, 7) and with each other, in natural units."""
        belief = self.belief
        design, fixed = np.zeros((SEATS, len(belief.mean))), np.zeros(SEATS)
        for number, power in enumerate(POWERS):
            design[number, number] = 1.0
            if (player := seats[power]) in self.anchors:
                fixed[number] = self.anchors[player][power]
            else:
                start = belief.start(player)
                design[number, start] = design[number, start + 1 + number] = 1.0
        design /= POINTS
        across = belief.covariance @ design.T
        return fixed / POINTS + design @ belief.mean, across, design @ across
