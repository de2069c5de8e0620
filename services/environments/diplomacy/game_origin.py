"""Who played a game, and with what: the record that a saved game carries beside the engine's own data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from services.environments.seat_player import SeatPlayer

ORIGIN_KEY = "entente"  # of a saved game's document; the engine and other programs ignore it
SCHEMA = 1


class _Seat(msgspec.Struct):
    player: str


class _Record(msgspec.Struct):
    seats: dict[str, _Seat]


def seated_players(document: Mapping[str, Any]) -> Mapping[str, str]:
    """Who sat in each seat of a saved game, by name; none where the file does not say, or not in this form."""
    try:
        return {seat: each.player for seat, each in msgspec.convert(document.get(ORIGIN_KEY), _Record).seats.items()}
    except ValueError:  # msgspec's errors are ValueErrors
        return {}


@dataclass(frozen=True, slots=True)
class GameOrigin:
    """What is needed to know a game's players, and to play it again."""

    seats: Mapping[str, SeatPlayer]  # by power, all seven
    seed: int  # of the game: it derives every decision's seed
    until_year: int
    commit: str  # of this project's code, "unknown" outside a checkout
    package_version: str  # of this project's package
    quiet_years: int | None = None  # after which it would have been a draw, see ``Ending``

    def document(self) -> dict[str, Any]:
        """Return the record as JSON data; without quiet years, they are left out."""
        document = {"schema": SCHEMA, **asdict(self)}
        if self.quiet_years is None:
            del document["quiet_years"]
        return document
