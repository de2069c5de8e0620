"""The protocol that every player implements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from grpo_core.types import Turn
from services.environments.diplomacy.position import Position


@dataclass(frozen=True, slots=True)
class Decision:
    """One power's orders for one phase; a trainable policy adds the ``turn`` that produced them."""

    orders: tuple[str, ...]
    turn: Turn | None = None


class Policy(Protocol):
    """Plays any power of any position. One instance may play many games at once and keeps no per-game state."""

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        """Orders for ``power``; with fixed weights the same position, power and seed give the same answer."""
        ...
