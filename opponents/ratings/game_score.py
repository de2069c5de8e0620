"""The result of one whole game for ratings and matchmaking: the players, and who finished above whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from services.environments.playing import Standing


@dataclass(frozen=True, slots=True)
class GameScore:
    """A finished game of two seats or more; one player may have several of them.

    Raises:
        ValueError: fewer than two seats, a share or a place for other seats than these, or a share beyond 0 to 1.
    """

    seats: Mapping[str, str]  # role -> player, e.g. "bot/random", "policy/v20", "learner"
    standing: Standing

    def __post_init__(self) -> None:
        roles = ", ".join(self.seats) or "none"
        if len(self.seats) < 2:
            raise ValueError(f"a game to compare players by has two seats or more, not {roles}")
        if set(self.standing.shares) != set(self.seats):
            raise ValueError(f"shares must be of {roles}; got {', '.join(self.standing.shares) or 'none'}")
        placed = Counter(role for place in self.standing.places for role in place)
        if placed != Counter(dict.fromkeys(self.seats, 1)):
            raise ValueError(f"places must have each of {roles} once; got {', '.join(placed.elements()) or 'none'}")
        for role, share in self.standing.shares.items():
            if not 0 <= share <= 1:  # NaN is not either
                raise ValueError(f"the share of {role} must be from 0 to 1, not {share}")

    def score(self, role: str) -> float:
        """The share of the whole score that a role got, in [0, 1]."""
        return self.standing.shares[role]

    @property
    def places(self) -> tuple[tuple[str, ...], ...]:
        """Roles from first to last; those in one tuple share a place."""
        return self.standing.places

    @property
    def last_is_open(self) -> bool:
        """Whether the order within the last place is unknown."""
        return self.standing.last_is_open
