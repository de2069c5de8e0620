"""What an order does to another power: it works against it, or helps it. Whether it succeeds does not count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from services.environments.diplomacy.position import Position


@dataclass(frozen=True, slots=True)
class Deed:
    """One movement order, by what it does."""

    helped: str | None  # the other power whose unit it supports or convoys
    goal: str | None  # the province that the moving unit enters, its own or the helped one
    moves_itself: bool


def deed(order: str, position: Position, power: str) -> Deed:
    """What a legal movement order of ``power`` does, such as ``A MAR S A PAR - BUR``."""
    known: dict[tuple[str, str], Deed] = position.memo.setdefault(Deed, {})  # each is asked for by all that negotiate
    done = known.get((power, order))
    if done is None:
        done = known[power, order] = _read(order, position, power)
    return done


def _read(order: str, position: Position, power: str) -> Deed:
    holders, _ = _board(position)
    mark = 6 if order[5] == " " else 9  # after "A PAR " or "F STP/SC "
    kind = order[mark]
    dash = order.find("-", mark)
    goal = order[dash + 2 : dash + 5] if dash >= 0 else None
    if kind not in "SC":
        return Deed(None, goal, goal is not None)
    owner = holders.get(order[mark + 4 : mark + 7])
    return Deed(None if owner == power else owner, goal, False)


def is_against(order: str, position: Position, power: str, other: str) -> bool:
    """Whether an order of ``power`` moves into a province where ``other`` has a unit or a supply centre, or helps that.

    Helping a unit of ``other`` itself to move there is not against it.
    """
    done = deed(order, position, power)
    if done.goal is None or done.helped == other:
        return False
    holders, owners = _board(position)
    return other in (holders.get(done.goal), owners.get(done.goal))


def helps(order: str, position: Position, power: str, other: str) -> bool:
    """Whether an order of ``power`` supports or convoys a unit of ``other``."""
    return deed(order, position, power).helped == other


def _board(position: Position) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Who stands in each province, and who owns each centre; shared by all that look at the position."""
    known: tuple[dict[str, str], dict[str, str]] | None = position.memo.get(deed)
    if known is None:
        holders = {unit[2:5]: power for power, units in position.units.items() for unit in units}
        owners = {center: power for power, centers in position.centers.items() for center in centers}
        known = position.memo[deed] = holders, owners
    return known
