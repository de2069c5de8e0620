"""Who played a game, and with what: the record that a saved game carries beside the engine's own data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

ORIGIN_KEY = "entente"  # of a saved game's document; the engine and other programs ignore it
SCHEMA = 1

PlayerKind = Literal["bot", "checkpoint", "learner", "remote", "program"]


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


@dataclass(frozen=True, slots=True)
class GameOrigin:
    """What is needed to know a game's players, and to play it again."""

    seats: Mapping[str, SeatPlayer]  # by power, all seven
    seed: int  # of the game: it derives every decision's seed
    until_year: int
    commit: str  # of this project's code, "unknown" outside a checkout
    package_version: str  # of this project's package

    def document(self) -> dict[str, Any]:
        """Return the record as JSON data."""
        return {"schema": SCHEMA, **asdict(self)}
