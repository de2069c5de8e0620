"""What people do in the present phase of a line: enter orders, take them back, submit them, change who plays.

The orders of a seat are kept in the sequence in which they were entered. A later order for the same unit, or build in
the same province, replaces the earlier one; without the later one the earlier one counts again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from cluster.play_server.line import Line
from cluster.play_server.seats import PERSON
from grpo_core.errors import EntenteError, one_line
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.orders import WAIVE, parse

MOST_ENTERED = 200  # of a seat in a phase, replaced ones included
_REASONS = {
    "unreadable": "it cannot be read as an order",
    "not_own_unit": "that is no unit of this power that awaits an order",
    "illegal": "the unit cannot do that now",
}


class RefusedError(EntenteError):
    """A request cannot be met; ``status`` is the one of its answer, and nothing has changed."""

    status: ClassVar[int] = 409


class NotYoursError(RefusedError):
    """Orders for a seat that no person plays."""

    status = 403


class IllegalOrderError(RefusedError):
    """An order that is not legal in the position."""

    status = 422


def check_phase(line: Line, phase: str) -> None:
    """Raise RefusedError unless ``phase`` is the present one: a page that shows an earlier one is out of date."""
    if line.is_over:
        raise RefusedError("this game is over; go back to a phase and fork from there")
    if phase != line.present.name:
        raise RefusedError(f"{one_line(phase, 20)} is over; the game is in {line.present.name} now")


def effective(position: Position, power: str, entered: Sequence[str]) -> tuple[str, ...]:
    """The orders that count among those entered in sequence, one for each unit, or up to those owed."""
    counted: dict[str, str] = {}
    for number, order in enumerate(entered):
        key = f"{WAIVE} {number}" if order == WAIVE else _place(order, position.kind)
        counted.pop(key, None)
        counted[key] = order
    if position.kind != "A":
        return tuple(counted.values())
    return tuple(counted.values())[: abs(position.adjustments[power])]


def enter(line: Line, power: str, text: str) -> Line:
    """Add one order, written as in the legal list or so that only one legal order can be meant.

    Raises IllegalOrderError for another text, NotYoursError for the seat of a player, RefusedError once orders are
    submitted or no build or disband is left.
    """
    position = _position_of_person(line, power)
    entered = line.entered.get(power, ())
    found = parse(text.strip(), position, power, repair=True)
    if len(found.actions) != 1 or "\n" in text.strip():
        reason = next((_REASONS[each.reason] for each in found.defects if each.reason in _REASONS), "give one order")
        raise IllegalOrderError(f"{one_line(repr(text.strip()), 60)}: {reason}")
    order = found.actions[0]
    before = effective(position, power, entered)
    is_full = position.kind == "A" and len(before) == abs(position.adjustments[power])
    replaces = order != WAIVE and _place(order, "A") in {_place(each, "A") for each in before if each != WAIVE}
    if is_full and not replaces:
        raise RefusedError(f"all {len(before)} are ordered; take one back first")
    if len(entered) >= MOST_ENTERED:
        entered = before  # what was replaced is forgotten
    return _with_entered(line, power, (*entered, order))


def undo(line: Line, power: str) -> Line:
    """Take back the order that was entered last; RefusedError if there is none."""
    _position_of_person(line, power)
    entered = line.entered.get(power, ())
    if not entered:
        raise RefusedError(f"no order of {power} is entered")
    return _with_entered(line, power, entered[:-1])


def remove(line: Line, power: str, order: str) -> Line:
    """Take back one order that counts, with those that it replaced; RefusedError if it is not entered."""
    position = _position_of_person(line, power)
    entered = line.entered.get(power, ())
    if order not in effective(position, power, entered):
        raise RefusedError(f"{one_line(repr(order), 60)} is not entered")
    if order == WAIVE:
        last = len(entered) - 1 - entered[::-1].index(WAIVE)
        return _with_entered(line, power, (*entered[:last], *entered[last + 1 :]))
    place = _place(order, position.kind)
    return _with_entered(
        line, power, tuple(each for each in entered if each == WAIVE or _place(each, position.kind) != place)
    )


def clear(line: Line, power: str) -> Line:
    """Take back all orders of a seat."""
    _position_of_person(line, power)
    return _with_entered(line, power, ())


def enter_sheet(line: Line, power: str, orders: Sequence[str]) -> Line:
    """Replace a seat's orders by a whole sheet, such as a hint; raises as ``enter``."""
    line = clear(line, power)
    for order in orders:
        line = enter(line, power, order)
    return line


def submit(line: Line) -> Line:
    """Give the orders of all people as they are: the phase goes on once all players have answered."""
    if line.submitted:
        raise RefusedError("the orders are given already")
    return replace(line, submitted=True)


def recall(line: Line) -> Line:
    """Take submitted orders back, as long as the phase has not been adjudicated."""
    if not line.submitted:
        raise RefusedError("no orders are given yet")
    return replace(line, submitted=False)


def seat(line: Line, power: str, player: str) -> Line:
    """Let another player, or a person, play a power from the present phase on."""
    entered = {each: own for each, own in line.entered.items() if each != power}
    submitted = line.submitted and player != PERSON
    return replace(line, seats={**line.seats, power: player}, entered=entered, submitted=submitted)


def orders_of_people(line: Line) -> dict[str, tuple[str, ...]]:
    """The orders that people give in the present phase; units without one hold, disband or are not built."""
    position = line.present.position
    return {power: effective(position, power, line.entered.get(power, ())) for power in line.people_to_move}


def _position_of_person(line: Line, power: str) -> Position:
    if power not in POWERS or line.seats[power] != PERSON:
        raise NotYoursError(f"{one_line(power, 20)} is played by {one_line(line.seats.get(power, 'no one here'), 80)}")
    if power not in line.to_move:
        raise RefusedError(f"{power} has nothing to decide in {line.present.name}")
    if line.submitted:
        raise RefusedError("the orders are given already; take them back first")
    return line.present.position


def _with_entered(line: Line, power: str, orders: tuple[str, ...]) -> Line:
    entered: Mapping[str, tuple[str, ...]] = {**line.entered, power: orders}
    return replace(line, entered={each: own for each, own in entered.items() if own})


def _place(order: str, kind: str) -> str:
    """What an order is for: a unit's place, or the province of a build."""
    place = order[2:].partition(" ")[0]
    return place[:3] if kind == "A" else place
