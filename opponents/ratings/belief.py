"""What is believed of countries and players before and after games: one joint normal distribution, in points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from opponents.ratings.likelihood import SEATS, Array
from services.environments.diplomacy.position import POWERS

BLOCK = 1 + SEATS  # numbers of a player: its strength, and its deviation as each country


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed before the first game, in points."""

    mu: float = 1000.0  # of a player nobody knows
    sigma: float = 350.0
    deviation_sigma: float = 50.0  # of what a player makes of one country beyond its strength
    country_sigma: float = 50.0  # of what a country is worth, around what it is thought to be


PRIOR = Prior()


class Belief:
    """Mean (D,) and covariance (D, D): of the seven countries, then of a block of eight numbers for each player."""

    def __init__(self, prior: Prior, countries: Mapping[str, float]) -> None:
        self.prior = prior
        self.mean: Array = np.array([countries[power] for power in POWERS], np.float64)
        self.covariance: Array = np.eye(SEATS) * prior.country_sigma**2
        self.players: list[str] = []  # in the order of their blocks

    def start(self, player: str) -> int:
        """Where a player's block begins; ``ValueError`` if it has none."""
        return SEATS + BLOCK * self.players.index(player)

    def rows(self, player: str) -> slice:
        """Where a player's block is."""
        start = self.start(player)
        return slice(start, start + BLOCK)

    def add(self, player: str, like: str | None = None) -> None:
        """Add a player with the prior, or as a copy of another: equal, and certain to be."""
        size = len(self.mean)
        if like is None:
            mean, variance = np.zeros(BLOCK), np.full(BLOCK, self.prior.deviation_sigma**2)
            mean[0], variance[0] = self.prior.mu, self.prior.sigma**2
            across, block = np.zeros((size, BLOCK)), np.diag(variance)
        else:
            rows = self.rows(like)
            mean, across, block = self.mean[rows], self.covariance[:, rows], self.covariance[rows, rows]
        self.players.append(player)
        self.mean = np.concatenate([self.mean, mean])
        self.covariance = np.block([[self.covariance, across], [across.T, block]])

    def remove(self, player: str) -> None:
        """Strike a player out; what is believed of the others stays as it is."""
        rows = self.rows(player)
        self.mean = np.delete(self.mean, rows)
        self.covariance = np.delete(np.delete(self.covariance, rows, axis=0), rows, axis=1)
        self.players.remove(player)

    def drift(self, player: str, updates: int, tau: float, memory: float) -> None:
        """Widen what is believed of a player: its strength walks, its deviations go back towards the prior."""
        start = self.start(player)
        deviations = slice(start + 1, start + BLOCK)
        kept = memory**updates
        self.mean[deviations] *= kept
        self.covariance[deviations] *= kept
        self.covariance[:, deviations] *= kept
        growth = np.full(BLOCK, (1 - kept**2) * self.prior.deviation_sigma**2)
        growth[0] = updates * tau**2
        diagonal = np.arange(start, start + BLOCK)
        self.covariance[diagonal, diagonal] += growth

    def learn(self, across: Array, pull: Array, information: Array) -> None:
        """Take a message about strengths whose covariance with all numbers is ``across`` (D, 7)."""
        self.mean = self.mean + across @ pull
        # A root of the information makes the product symmetric to the last bit.
        values, vectors = np.linalg.eigh((information + information.T) / 2)
        learned = across @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        self.covariance = self.covariance - learned @ learned.T

    def estimate(self, weights: Array, rows: slice) -> tuple[float, float]:
        """Mean and standard deviation of a weighted sum of the numbers ``rows``."""
        variance = float(weights @ self.covariance[rows, rows] @ weights)
        return float(weights @ self.mean[rows]), max(0.0, variance) ** 0.5

    def copy_with(self, players: Iterable[str]) -> Belief:
        """A copy in which these players have joined."""
        copy = Belief(self.prior, dict.fromkeys(POWERS, 0.0))
        copy.mean, copy.covariance, copy.players = self.mean, self.covariance, list(self.players)
        for player in players:
            copy.add(player)
        return copy
