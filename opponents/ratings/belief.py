"""The belief about roles and players: one joint normal distribution, in points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from opponents.ratings.likelihood import Array


class Prior(msgspec.Struct, frozen=True, rename={"role_sigma": "country_sigma"}):  # the name in ratings.json
    """The belief before the first game, in points."""

    mu: float = 1000.0  # mean strength of an unknown player
    sigma: float = 350.0
    deviation_sigma: float = 50.0  # standard deviation of a player's deviation as one role
    role_sigma: float = 50.0  # standard deviation of a role's worth around its measured value


PRIOR = Prior()


class Belief:
    """Mean (D,) and covariance (D, D): the S roles first, then a block of 1 + S values per player.

    A block has the player's strength, and its deviation as each role.
    """

    def __init__(self, prior: Prior, roles: Sequence[str], worth: Mapping[str, float]) -> None:
        """Start without players; ``worth`` is what each role is worth by the prior, in points."""
        self.prior = prior
        self.roles = tuple(roles)
        self.mean: Array = np.array([worth[role] for role in roles], np.float64)
        self.covariance: Array = np.eye(len(roles)) * prior.role_sigma**2
        self.players: list[str] = []  # in the order of their blocks

    @property
    def block(self) -> int:
        """The number of values per player."""
        return 1 + len(self.roles)

    def start(self, player: str) -> int:
        """The first index of a player's block; ``ValueError`` if it has none."""
        return len(self.roles) + self.block * self.players.index(player)

    def rows(self, player: str) -> slice:
        """The indices of a player's block."""
        start = self.start(player)
        return slice(start, start + self.block)

    def add(self, player: str, like: str | None = None) -> None:
        """Add a player with the prior, or as an exact copy of another, fully correlated with it."""
        size, length = len(self.mean), self.block
        if like is None:
            mean, variance = np.zeros(length), np.full(length, self.prior.deviation_sigma**2)
            mean[0], variance[0] = self.prior.mu, self.prior.sigma**2
            across, block = np.zeros((size, length)), np.diag(variance)
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
        deviations = slice(start + 1, start + self.block)
        kept = memory**updates
        self.mean[deviations] *= kept
        self.covariance[deviations] *= kept
        self.covariance[:, deviations] *= kept
        growth = np.full(self.block, (1 - kept**2) * self.prior.deviation_sigma**2)
        growth[0] = updates * tau**2
        diagonal = np.arange(start, start + self.block)
        self.covariance[diagonal, diagonal] += growth

    def learn(self, across: Array, pull: Array, information: Array) -> None:
        """Update by a message about strengths whose covariance with all values is ``across`` (D, S)."""
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
        copy = Belief(self.prior, self.roles, dict.fromkeys(self.roles, 0.0))
        copy.mean, copy.covariance, copy.players = self.mean, self.covariance, list(self.players)
        copy.add(player)
        return copy
