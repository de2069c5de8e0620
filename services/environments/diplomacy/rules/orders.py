"""Order sheets: their slots, their parsing, and their defects."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from services.environments.diplomacy.position import Position
from services.environments.playing import Answer, Defect, Slot

Reason = Literal[
    "unreadable",  # not in the order notation
    "not_own_unit",  # readable, but no such unit of this power awaits an order
    "illegal",  # the unit cannot do that now
    "duplicate",  # the unit (or the building site) already has an order; the first one counts
    "missing",  # a unit without a line (it holds, or disbands), or a disband owed and not ordered ("D")
    "too_many",  # more builds or disbands than allowed
    "repaired",  # was not canonical; its only possible reading is used
]
WAIVE = "WAIVE"
# For Python's re and Hugging Face's tokenizers.Regex: each match is a word of a prompt or a sheet, other characters are
# dropped.
WORD_PATTERN = r"[AF] [A-Z]{3}(?:/[A-Z]{2})?\b|\n|[^\s,;()]+"
_PLACE = r"[A-Z]{3}(?:/[A-Z]{2})?"
_UNIT = rf"[AF] {_PLACE}"
_READABLE = re.compile(
    rf"WAIVE|{_UNIT} (?:H|D|B|R {_PLACE}|- {_PLACE}(?: VIA)?|S {_UNIT}(?: - {_PLACE})?|C {_UNIT} - {_PLACE})"
)


def sheet(position: Position, power: str) -> tuple[Slot, ...]:
    """Return the slots of ``power``'s order sheet; any choice that respects the claims is legal.

    Movement: one slot per unit. Retreats: one per dislodged unit. Builds: one per possible build, with any free home
    centre or WAIVE. Disbands: one per disband owed, with any own unit.
    """
    places = position.orderable.get(power, ())
    if not places:
        return ()
    if position.kind != "A":
        return tuple(Slot(legal, (None,) * len(legal)) for legal in (position.legal[place] for place in places))
    alternatives = _legal_orders(position, power)
    slot = Slot(alternatives, tuple(_claim(order) for order in alternatives))
    return (slot,) * abs(position.adjustments[power])


def check(orders: Iterable[str], position: Position, power: str) -> Answer:
    """Split ``orders`` into legal ones and defects; builds that are not ordered are waived, without a defect."""
    if position.kind == "A":
        return _check_adjustments(orders, position, power)
    legal, accepted, defects = position.legal, [], []
    silent = {place: _unit(legal[place][0]) for place in position.orderable.get(power, ())}
    ordered = set()
    for order in orders:
        place = _place(order)
        if place in ordered:
            defects.append(Defect(order, "duplicate"))
        elif place in silent and order in legal[place]:
            ordered.add(place)
            accepted.append(order)
        else:
            defects.append(Defect(order, _why_not(order, silent.get(place) == _unit(order))))
    addressed = ordered | {_place(defect.text) for defect in defects}
    defects.extend(Defect(unit, "missing") for place, unit in silent.items() if place not in addressed)
    return Answer(tuple(accepted), tuple(defects))


def parse(text: str, position: Position, power: str, repair: bool = False) -> Answer:
    """Parse a sheet, one order per line; empty lines are skipped.

    An order must be written exactly as in the legal list. With ``repair``, case, spacing, ``->``, full stops, a missing
    coast or a missing ``VIA`` are corrected where only one legal order is possible.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    if not repair:
        return check(lines, position, power)
    legal = _legal_orders(position, power)
    known, orders = frozenset(legal), list[str]()
    shortened: defaultdict[str, list[str]] = defaultdict(list)
    for order in legal:
        shortened[_without_details(order)].append(order)
    for line in lines:
        orders.append(line if line in known else _repaired(line, known, shortened))
    checked = check(orders, position, power)
    taken, repairs = Counter(checked.actions), []
    for line, order in zip(lines, orders, strict=True):
        if taken[order]:  # the first lines of an order are those that count
            taken[order] -= 1
            if order != line:
                repairs.append(Defect(line, "repaired"))
    return Answer(checked.actions, (*repairs, *checked.defects))


def _unit(order: str) -> str:
    return " ".join(order.split(" ", 2)[:2])


def _place(order: str) -> str:
    return order[2:].partition(" ")[0]


def _legal_orders(position: Position, power: str) -> tuple[str, ...]:
    return tuple(sorted({order for place in position.orderable.get(power, ()) for order in position.legal[place]}))


def _claim(order: str) -> str | None:
    """Return the claim of an adjustment order: the province of a build, the unit of a disband."""
    if order == WAIVE:
        return None
    return order[2:5] if order.endswith(" B") else order.removesuffix(" D")


def _check_adjustments(orders: Iterable[str], position: Position, power: str) -> Answer:
    owed = position.adjustments.get(power, 0)
    allowed = frozenset(_legal_orders(position, power))
    accepted: list[str] = []
    defects: list[Defect] = []
    claimed: set[str] = set()
    for order in orders:
        claim = _claim(order)
        if order not in allowed:
            own = order.endswith(" B") or order[: -len(" D")] in position.units.get(power, ())
            defects.append(Defect(order, _why_not(order, own)))
        elif claim in claimed:
            defects.append(Defect(order, "duplicate"))
        elif len(accepted) == abs(owed):
            defects.append(Defect(order, "too_many"))
        else:
            accepted.append(order)
            if claim is not None:
                claimed.add(claim)
    if owed < 0:
        defects.extend(Defect("D", "missing") for _ in range(-owed - len(accepted)))
    return Answer(tuple(accepted), tuple(defects))


def _why_not(order: str, own_unit: bool) -> Reason:
    if _READABLE.fullmatch(order) is None:
        return "unreadable"
    return "illegal" if own_unit or order == WAIVE else "not_own_unit"


def _repaired(line: str, known: Collection[str], shortened: Mapping[str, Sequence[str]]) -> str:
    """Return the only legal order that ``line`` can mean, or ``line`` itself.

    ``known`` are the legal orders; ``shortened`` has those without their details, and which orders each stands for.
    """
    tidy = " ".join(line.upper().replace("->", "-").replace("-", " - ").rstrip(" .;,").split())
    if tidy in known:
        return tidy
    meant = shortened.get(_without_details(tidy), ())
    return meant[0] if len(meant) == 1 else line


def _without_details(order: str) -> str:
    return re.sub(r"/[A-Z]{2}| VIA$", "", order)
