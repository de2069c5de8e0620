"""Who sat at a seat of a saved game."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PlayerKind = Literal["bot", "checkpoint", "learner", "shipped", "remote", "program", "person"]


@dataclass(frozen=True, slots=True)
class SeatPlayer:
    """The player of one seat; None where a value does not apply or is not known."""

    player: str  # a bot's name, "demo/checkpoints/90", "remote:gpt"; no path of the machine
    # The learner is the policy of a run in training, as its own evaluations seat it; a program's players are objects.
    kind: PlayerKind
    version: int | None = None  # updates behind the weights; bots and remote players are versioned by their checksum
    checksum: str | None = None  # SHA-256 of the weights played; of a bot or remote player, its release checksum
    decoding: str | None = None  # of policies: "constrained" or "free"
    temperature: float | None = None  # of policies' sampling
