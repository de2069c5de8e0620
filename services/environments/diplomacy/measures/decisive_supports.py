"""Which supports decided something: had the unit held instead, others would stand elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from services.environments.diplomacy.measures.movement import Movement, UnitOrder


def decisive_supports(movement: Movement) -> Iterator[UnitOrder]:
    """Yield the supports without which one strength less would have changed what its unit did, or what others did.

    That is judged place by place, from the strengths that met there: a move arrived by one, a stay or a failed move
    kept out an attack by one. Chains that reach over several places (a unit that could not leave, and so stood in the
    way of a third) are not followed; the tests compare it with the engine, which adjudicates without the support.
    """
    for place, supports in movement.supports.items():
        helped = movement.orders[place]
        if _moves(movement, helped) if helped.kind == "-" else _stays(movement, helped):
            yield from supports


def _moves(movement: Movement, mover: UnitOrder) -> bool:
    """Whether one support less would have changed where a move led, kept out a rival's, or let it be dislodged."""
    strength = movement.strength(mover)
    rivals = [rival for rival in movement.attacks[mover.target] if rival is not mover]
    strengths = [movement.strength(rival) for rival in rivals]
    defence = _defence(movement, mover.target, mover)
    if mover.worked:
        return strength - 1 <= max([defence, *strengths])
    opposite = movement.orders.get(mover.target)
    met = opposite is not None and opposite.target == mover.place and opposite.kind == "-"
    if opposite is not None and met and _lets_in(movement, opposite, mover, strength):
        return True
    if not rivals:
        return False
    strongest = max(rivals, key=movement.strength)
    blocked = opposite is not None and opposite.power == strongest.power and not _left(opposite)
    alone = strengths.count(max(strengths)) == 1
    return alone and not blocked and movement.strength(strongest) == strength and strength > defence


def _lets_in(movement: Movement, opposite: UnitOrder, mover: UnitOrder, strength: int) -> bool:
    """Whether the unit that moves the other way would have dislodged the mover, had it been weaker by one."""
    attacks = [movement.strength(attack) for attack in movement.attacks[mover.place] if attack is not opposite]
    own = movement.strength(opposite)
    return opposite.power != mover.power and not mover.dislodged and own == strength and own > max(attacks, default=0)


def _stays(movement: Movement, unit: UnitOrder) -> bool:
    """Whether one support less would have let an attack through."""
    if unit.dislodged:
        return False
    attacks = sorted(
        (movement.strength(attack) for attack in movement.attacks.get(unit.place, ()) if attack.power != unit.power),
        reverse=True,
    )
    if not attacks or attacks[0] != movement.strength(unit):
        return False
    return len(attacks) == 1 or attacks[1] < attacks[0]


def _defence(movement: Movement, place: str, mover: UnitOrder) -> int:
    """The strength that a move to ``place`` has to exceed on account of the unit that stands there; 0 for none."""
    unit = movement.orders.get(place)
    if unit is None:
        return 0
    if unit.kind != "-":
        return movement.strength(unit)
    if unit.target == mover.place:  # head to head
        return movement.strength(unit)
    return 0 if _left(unit) else 1  # a unit that failed to leave stays with its own strength


def _left(unit: UnitOrder) -> bool:
    return unit.kind == "-" and unit.worked
