"""What every scripted player shares: orders computed at once, without waiting for anything."""

from __future__ import annotations

from abc import ABC, abstractmethod

from opponents.players.policy import Decision
from services.environments.diplomacy.position import Position


class Bot(ABC):
    """A scripted policy without state: the same position, power and seed give the same orders."""

    @abstractmethod
    def orders(self, position: Position, power: str, seed: int) -> tuple[str, ...]:
        """Legal orders of ``power``, one for everything it must order; () if it has nothing to decide."""

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        """The same as a ``Decision``; never suspends."""
        return Decision(self.orders(position, power, seed))
