"""The belief about countries and players: one joint normal distribution, in points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from opponents.ratings.likelihood import SEATS, Array
from services.environments.diplomacy.position import POWERS

BLOCK = 1 + SEATS  # values per player: its strength, and its deviation as each country


@dataclass(frozen=True, slots=True)
class Prior:
    """The belief before the first game, in points."""

    mu: float = 1000.0  # mean strength of an unknown player
    sigma: float = 350.0
    deviation_sigma: float = 50.0  # standard deviation of a player's deviation as one country
    country_sigma: float = 50.0  # standard deviation of a country's worth around its measured value


PRIOR = Prior()


class Belief:
    """Mean (D,) and covariance (D, D): the seven countries first, then a block of eight values per player."""

    def __init__(self, prior: Prior, countries: Mapping[str, float]) -> None:
        self.prior = prior
        self.mean: Array = np.array([countries[power] for power in POWERS], np.float64)
        self.covariance: Array = np.eye(SEATS) * prior.country_sigma**2
        self.players: list[str] = []  # in the order of their blocks

    def start(self, player: str) -> int:
        """The first index of a player's block; ``ValueError`` if it has none."""
        return SEATS + BLOCK * self.players.index(player)

    def rows(self, player: str) -> slice:
        """The indices of a player's block."""
        start = self.start(player)
        return slice(start, start + BLOCK)

    def add(self, player: str, like: str | None = None) -> None:
        """Add a player with the prior, or as an exact copy of another, fully correlated with it."""
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
        """Remove a player; the belief about the others stays."""
        rows = self.rows(player)
        self.mean = np.delete(self.mean, rows)
        self.covariance = np.delete(np.delete(self.covariance, rows, axis=0), rows, axis=1)
        self.players.remove(player)

    def drift(self, player: str, updates: int, tau: float, memory: float) -> None:
        """Widen the belief about a player: its strength walks randomly, its deviations return towards the prior."""
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
        """Update by a message about strengths whose covariance with all values is ``across`` (D, 7)."""
        self.mean = self.mean + across @ pull
        # A root of the information makes the product exactly symmetric.
        values, vectors = np.linalg.eigh((information + information.T) / 2)
        learned = across @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        self.covariance = self.covariance - learned @ learned.T

    def estimate(self, weights: Array, rows: slice) -> tuple[float, float]:
        """Mean and standard deviation of a weighted sum of the values in ``rows``."""
        variance = float(weights @ self.covariance[rows, rows] @ weights)
        return float(weights @ self.mean[rows]), max(0.0, variance) ** 0.5

    def copy_with(self, player: str) -> Belief:
        """A copy with this player added."""
        copy = Belief(self.prior, dict.fromkeys(POWERS, 0.0))
        copy.mean, copy.covariance, copy.players = self.mean, self.covariance, list(self.players)
        copy.add(player)
        return copy
