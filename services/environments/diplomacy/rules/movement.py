"""A movement phase that is over: every unit's order, whether it worked, and which supports counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class UnitOrder:
    """What one unit did. Places are provinces, without coasts."""

    power: str
    place: str
    kind: str  # "H" hold, "-" move, "S" support, "C" convoy
    target: str  # of a move: where to; of a support: the place of the unit that it helps; else ""
    supported_move: str  # of a support: where the helped unit moves; "" for one that stays
    worked: bool  # the engine has no word against it ("bounce", "cut", "void", "dislodged", ...)
    dislodged: bool
    stranded: bool = False  # a move by sea without a convoy: it never set out


@dataclass(slots=True)
class Movement:
    """All orders of a phase, by the place of the unit."""

    orders: dict[str, UnitOrder]
    supports: dict[str, list[UnitOrder]] = field(default_factory=dict)  # place of the helped unit -> those that counted
    attacks: dict[str, list[UnitOrder]] = field(default_factory=dict)  # province -> moves to it

    def __post_init__(self) -> None:
        for order in self.orders.values():
            if order.kind == "-":
                if not order.stranded:
                    self.attacks.setdefault(order.target, []).append(order)
            elif order.kind == "S" and order.worked and self._matches(order):
                self.supports.setdefault(order.target, []).append(order)

    def strength(self, unit: UnitOrder, against: str | None = None) -> int:
        """The strength of a unit's move, or of its stay: 1 and the supports that counted.

        ``against`` is the power of a unit that is to be dislodged: it does not support that.
        """
        return 1 + sum(support.power != against for support in self.supports.get(unit.place, ()))

    def _matches(self, support: UnitOrder) -> bool:
        """Whether the helped unit did what the support is for."""
        helped = self.orders.get(support.target)
        return helped is not None and support.supported_move == (helped.target if helped.kind == "-" else "")


def read_movement(
    units: Mapping[str, Sequence[str]],
    orders: Mapping[str, Sequence[str]],
    results: Mapping[str, Sequence[str]],
) -> Movement:
    """Read a phase in the engine's words.

    ``units`` are the standing units by power ("A PAR"), ``orders`` the legal orders that were given ("A PAR - BUR"),
    and ``results`` the engine's words for each unit that did not simply do what it was told. Units without an order
    hold.
    """
    told = {order[2:5]: order for own in orders.values() for order in own}
    read: dict[str, UnitOrder] = {}
    for power, own in units.items():
        for unit in own:
            place, words = unit[2:5], results.get(unit, ())
            order = told.get(place)
            kind, target, supported_move = ("H", "", "") if order is None else _parse(order)
            dislodged, stranded = ("dislodged" in words, "no convoy" in words)
            read[place] = UnitOrder(power, place, kind, target, supported_move, not words, dislodged, stranded)
    return Movement(read)


@lru_cache(maxsize=100_000)  # of at most some 25,000 orders that the map has
def _parse(order: str) -> tuple[str, str, str]:
    words = order.split()
    kind = words[2]
    if kind == "-":
        return kind, words[3][:3], ""
    if kind == "S":
        return kind, words[4][:3], words[6][:3] if len(words) > 6 else ""
    return kind, "", ""
