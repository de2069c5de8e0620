"""What a power may say to another one in a position, in the compact language."""

from __future__ import annotations

from collections.abc import Iterator

from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.press.deeds import deed, helps
from services.environments.diplomacy.press.proposals import SILENCE, Proposal


def partners(position: Position, power: str) -> tuple[str, ...]:
    """The other powers that still have a unit or a centre, in the order of ``POWERS`` after ``power``."""
    start = POWERS.index(power)
    others = (POWERS[(start + step) % len(POWERS)] for step in range(1, len(POWERS)))
    return tuple(other for other in others if _is_alive(position, other))


def sayable(position: Position, power: str, partner: str, *, answers: bool) -> tuple[str, ...]:
    """The lines that ``power`` may write to ``partner`` before the orders of a movement phase, ``PASS`` first.

    ``answers`` is whether the partner has proposed something that waits for an answer. Orders that are promised or
    asked for are legal ones: moves of the giver, and its supports and convoys of the other one's units.
    """
    both = position.memo.setdefault((sayable, power, partner), None)
    if both is None:
        both = position.memo[sayable, power, partner] = tuple(
            proposal.text for proposal in _proposals(position, power, partner)
        )
    return (SILENCE, *(("ACCEPT", "REJECT") if answers else ()), *both)


def sayable_to_all(position: Position, power: str) -> tuple[str, ...]:
    """The lines that ``power`` may write to all powers, ``PASS`` first; they bind none.

    It may ask for peace or an alliance against another power, and announce its own legal moves.
    """
    found = position.memo.setdefault((sayable_to_all, power), None)
    if found is None:
        said = [Proposal("PEACE"), *(Proposal("ALLY", third) for third in partners(position, power))]
        said += [Proposal("WILL", order) for order in _moves(position, power)]
        found = position.memo[sayable_to_all, power] = (SILENCE, *(proposal.text for proposal in said))
    return found


def _moves(position: Position, power: str) -> list[str]:
    return [
        order
        for place in position.orderable.get(power, ())
        for order in position.legal[place]
        if deed(order, position, power).moves_itself
    ]


def _proposals(position: Position, power: str, partner: str) -> Iterator[Proposal]:
    yield Proposal("PEACE")
    for third in POWERS:
        if third not in (power, partner) and _is_alive(position, third):
            yield Proposal("ALLY", third)
    for province in sorted(_entered(position, power) & _entered(position, partner)):
        yield Proposal("DMZ", province)
    if position.draw_vote is not None:
        yield Proposal("DRAW")
    for order in _orders_about(position, power, partner):
        yield Proposal("WILL", order)
    for order in _orders_about(position, partner, power):
        yield Proposal("ASK", order)


def _orders_about(position: Position, giver: str, other: str) -> list[str]:
    """The giver's legal moves, and its supports and convoys of the other one's units."""
    return [
        order
        for place in position.orderable.get(giver, ())
        for order in position.legal[place]
        if helps(order, position, giver, other) or deed(order, position, giver).moves_itself
    ]


def _entered(position: Position, power: str) -> frozenset[str]:
    """The provinces that a unit of the power can move into."""
    done = (
        deed(order, position, power) for place in position.orderable.get(power, ()) for order in position.legal[place]
    )
    return frozenset(each.goal for each in done if each.moves_itself and each.goal is not None)


def _is_alive(position: Position, power: str) -> bool:
    return bool(position.units.get(power) or position.centers.get(power))
