"""One phase of a game as plain data: all that players may use, legal orders included."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

POWERS = ("AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY")
CENTERS_TO_WIN = 18
OPENING_UNTIL = 1903
MIDGAME_UNTIL = 1908


@dataclass(frozen=True, slots=True)
class PastPhase:
    """What was ordered in a phase that is over, and what came of it."""

    phase: str  # the engine's short name
    orders: Mapping[str, tuple[str, ...]]  # power -> its orders; units that held without an order may be left out
    results: Mapping[str, tuple[str, ...]]  # unit, as it stood -> "bounce", "cut", "dislodged" ...; none: it worked


@dataclass(frozen=True, slots=True)
class DrawVote:
    """What players know who vote on a draw in a movement phase."""

    wanted: tuple[str, ...]  # the powers that voted for one in the movement phase before
    quiet_years: int  # the years before this one in which no centre has changed hands


@dataclass(frozen=True, slots=True)
class Position:
    """The public facts of a phase. All collections are sorted, so that seeds reproduce games."""

    phase: str  # the engine's short name: "S1901M" movement, "F1902R" retreats, "W1903A" adjustments
    units: Mapping[str, tuple[str, ...]]  # power -> standing units, "A PAR", "F STP/SC"
    dislodged: Mapping[str, Mapping[str, tuple[str, ...]]]  # power -> unit -> free retreats
    centers: Mapping[str, tuple[str, ...]]  # power -> owned supply centres
    orderable: Mapping[str, tuple[str, ...]]  # power -> locations with decisions (with the coast)
    legal: Mapping[str, tuple[str, ...]]  # location -> legal orders, sorted
    adjustments: Mapping[str, int]  # adjustment phases: builds allowed (> 0) or disbands owed (< 0); else 0
    # The phases since the latest movement phase, that one first. Not compared: a position that was restored from a
    # state may lack them.
    past: tuple[PastPhase, ...] = field(default=(), compare=False)
    # What a power is asked to do here, told to language models; of scenarios alone.
    tasks: Mapping[str, str] = field(default_factory=dict, compare=False)
    draw_vote: DrawVote | None = None  # None: a game, or a phase, without votes on a draw
    # Cached results that the players of this position share (such as DumbBot's map values), by their owner.
    memo: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False, hash=False)

    @property
    def year(self) -> int:
        """Game year, 1901 on."""
        return int(self.phase[1:5])

    @property
    def season(self) -> str:
        """``"S"``, ``"F"`` or ``"W"``."""
        return self.phase[0]

    @property
    def kind(self) -> str:
        """``"M"`` movement, ``"R"`` retreats, ``"A"`` adjustments."""
        return self.phase[-1]

    def state(self) -> dict[str, Any]:
        """The position in the form of ``DiplomacyGame.state``."""
        standing = {power: [*self.units[power], *(f"*{unit}" for unit in self.dislodged[power])] for power in POWERS}
        retreats = {power: {unit: list(places) for unit, places in self.dislodged[power].items()} for power in POWERS}
        centers = {power: list(self.centers[power]) for power in POWERS}
        return {"name": self.phase, "units": standing, "retreats": retreats, "centers": centers}

    @property
    def to_move(self) -> tuple[str, ...]:
        """The powers with decisions."""
        return tuple(power for power in POWERS if self.orderable.get(power))


def segment(phase: str) -> Literal["opening", "midgame", "endgame"]:
    """Return the segment of a short phase name (``S1901M``): opening to 1903, midgame to 1908, then endgame."""
    year = int(phase[1:5])
    if year <= OPENING_UNTIL:
        return "opening"
    return "midgame" if year <= MIDGAME_UNTIL else "endgame"
