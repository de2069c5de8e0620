"""Bayesian ratings with uncertainties, from the finishing orders of whole games.

The strength of a seat is the player's strength, plus the role's worth, plus the player's deviation as this role;
``likelihood`` gives the places that follow. All these values have one joint normal distribution, which every game
updates. So a player may have several seats, weak roles do not lower a player's rating, and the learner's games also
rate its frozen copies, with decreasing effect as the learner changes.

Ratings are in points of the Elo scale: 400 points are odds of ten to one to finish above. An unknown player is at 1000;
where a world has bots of known strength, these fix the scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opponents.population.member import PopulationError
from opponents.ratings.belief import PRIOR, Belief, Prior
from opponents.ratings.game_score import GameScore
from opponents.ratings.likelihood import Array, draws_of, posterior
from services.environments.environment import RatingScale

POINTS = 400 / math.log(10)  # per unit of strength, which is a natural logarithm of odds


class RatingsError(PopulationError):
    """A player cannot be rated as asked, or a ratings file is missing or damaged."""


@dataclass(frozen=True, slots=True)
class Rating:
    """The belief about a strength, in points: normal with mean ``mu`` and standard deviation ``sigma``."""

    mu: float
    sigma: float
    games: int  # that the player played; for one role, the seats it had there

    @property
    def interval(self) -> tuple[float, float]:
        """The central 95 % interval."""
        return self.mu - 1.96 * self.sigma, self.mu + 1.96 * self.sigma


class RatingBook:
    """Ratings of players by id. Anchors are fixed: games never change them.

    The time to record a game and the size of the file grow with the square of the number of players, without anchors.
    """

    def __init__(self, roles: Sequence[str], scale: RatingScale, prior: Prior = PRIOR) -> None:
        """Start without games; ``roles`` are all seats of a game, ``scale`` is what is known of them and of bots."""
        self.anchors = {player: {role: float(of[role]) for role in roles} for player, of in scale.anchors.items()}
        self.belief = Belief(prior, roles, scale.worth)
        self.games: dict[str, int] = {}  # number of games of each player or anchor
        self.seats: dict[str, list[int]] = {}  # number of seats of each player, by role in the order of roles

    @property
    def roles(self) -> tuple[str, ...]:
        """All seats of a game."""
        return self.belief.roles

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
        deviations by role remains.
        """
        if player not in self.belief.players:
            self.belief.add(player)
        self.belief.drift(player, updates, tau, memory)

    def record(self, score: GameScore) -> None:
        """Update the ratings by a finished game; unknown players are added. ValueError for a game of other roles."""
        if set(score.seats) != set(self.roles):
            raise ValueError(f"ratings of {', '.join(self.roles)} take no game of {', '.join(score.seats)}")
        for player in dict.fromkeys(score.seats[role] for role in self.roles):
            if player not in self.anchors and player not in self.belief.players:
                self.belief.add(player)
            self.games[player] = self.games.get(player, 0) + 1
        for number, role in enumerate(self.roles):
            self.seats.setdefault(score.seats[role], [0] * len(self.roles))[number] += 1
        mean, across, covariance = self.strengths(score.seats)
        self.belief.learn(across, *posterior(draws_of(score, self.roles), mean, covariance))

    def rating(self, player: str, role: str | None = None) -> Rating:
        """A player's strength in the mean over the roles, or as one of them, without the role's worth.

        Anchors are exact; an unknown player has the prior.
        """
        count = len(self.roles)
        if role is None:
            games = self.games.get(player, 0)
            weights = np.full(1 + count, 1 / count)
        else:
            where = self.roles.index(role)
            games = self.seats[player][where] if player in self.seats else 0
            weights = np.eye(1 + count)[1 + where]
        if player in self.anchors:
            points = self.anchors[player]
            return Rating(math.fsum(points.values()) / count if role is None else points[role], 0.0, games)
        weights[0] = 1.0
        belief = self.belief if player in self.belief.players else self.belief.copy_with(player)
        return Rating(*belief.estimate(weights, belief.rows(player)), games)

    def worth(self, role: str) -> Rating:
        """A role's worth relative to the mean of all, points."""
        count, where = len(self.roles), self.roles.index(role)
        weights = np.full(count, -1 / count)
        weights[where] += 1.0
        games = sum(seats[where] for seats in self.seats.values())
        return Rating(*self.belief.estimate(weights, slice(0, count)), games)

    def strengths(self, seats: Mapping[str, str]) -> tuple[Array, Array, Array]:
        """The seats' means (S,), covariance with the whole belief (D, S) and with each other, in natural units."""
        belief, count = self.belief, len(self.roles)
        design, fixed = np.zeros((count, len(belief.mean))), np.zeros(count)
        for number, role in enumerate(self.roles):
            design[number, number] = 1.0
            if (player := seats[role]) in self.anchors:
                fixed[number] = self.anchors[player][role]
            else:
                start = belief.start(player)
                design[number, start] = design[number, start + 1 + number] = 1.0
        design /= POINTS
        across = belief.covariance @ design.T
        return fixed / POINTS + design @ belief.mean, across, design @ across
