"""Which supports decided something: had the unit held instead, others would stand elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from services.environments.diplomacy.rules.movement import Movement, UnitOrder


def decisive_supports(movement: Movement) -> Iterator[UnitOrder]:
    """Yield the supports without which one strength less would have changed what its unit did, or what others did.

    That is judged place by place, from the strengths that met there: a move arrived by one, a stay or a failed move
    kept out an attack by one. Chains that reach over several places (a unit that could not leave, and so stood in the
    way of a third) are not followed; the tests compare it with the engine, which adjudicates without the support.
    """
    for place, supports in movement.supports.items():
        helped = movement.orders[place]
        if helped.kind != "-":
            if _stays(movement, helped):
                yield from supports
        elif _meets_rivals(movement, helped):
            yield from supports
        elif (beaten := _meets_defence(movement, helped)) is not None:
            yield from (support for support in supports if support.power != beaten)


def _meets_rivals(movement: Movement, mover: UnitOrder) -> bool:
    """Whether one support less would have let in a rival, kept the mover out beside one, or had it dislodged."""
    strength, there = movement.strength(mover), movement.orders.get(mover.target)
    rivals = [rival for rival in movement.attacks.get(mover.target, ()) if _reaches(rival, mover, there)]
    if mover.worked:
        return strength - 1 <= max(map(movement.strength, rivals), default=0)
    if there is not None and there.kind == "-" and there.target == mover.place:
        return _lets_in(movement, there, mover) or _lets_in_rival(movement, rivals, there, strength)
    return _lets_in_rival(movement, rivals, there, strength)


def _reaches(rival: UnitOrder, mover: UnitOrder, there: UnitOrder | None) -> bool:
    """Whether a rival counts where it moves: not if the unit from there has dislodged it."""
    return rival is not mover and not (there is not None and _left(there) and there.target == rival.place)


def _lets_in_rival(movement: Movement, rivals: list[UnitOrder], there: UnitOrder | None, strength: int) -> bool:
    """Whether a rival would have arrived if a move that failed had been weaker by one."""
    if not rivals:
        return False
    strongest = max(rivals, key=movement.strength)
    own = movement.strength(strongest)
    alone = sum(movement.strength(rival) == own for rival in rivals) == 1
    if not alone or own != strength:
        return False
    if there is None or _left(there):
        return True
    power = there.power
    return power != strongest.power and movement.strength(strongest, power) > _defence(movement, there, strongest)


def _lets_in(movement: Movement, opposite: UnitOrder, mover: UnitOrder) -> bool:
    """Whether the unit that moves the other way would have dislodged the mover, had it been weaker by one."""
    attacks = [movement.strength(each) for each in movement.attacks.get(mover.place, ()) if each is not opposite]
    own = movement.strength(opposite, mover.power)
    if opposite.power == mover.power or mover.dislodged:
        return False
    return own == movement.strength(mover) and own > max(attacks, default=0)


def _meets_defence(movement: Movement, mover: UnitOrder) -> str | None:
    """The power of the unit that a move dislodged by a strength of one more; None if it did not, or by more."""
    there = movement.orders.get(mover.target)
    if not mover.worked or there is None or _left(there):
        return None
    enough = movement.strength(mover, there.power) - 1 <= _defence(movement, there, mover)
    return there.power if enough else None


def _stays(movement: Movement, unit: UnitOrder) -> bool:
    """Whether one support less would have let an attack through."""
    if unit.dislodged:
        return False
    attacks = sorted(
        (
            movement.strength(attack, unit.power)
            for attack in movement.attacks.get(unit.place, ())
            if attack.power != unit.power
        ),
        reverse=True,
    )
    if not attacks or attacks[0] != movement.strength(unit):
        return False
    return len(attacks) == 1 or attacks[1] < attacks[0]


def _defence(movement: Movement, unit: UnitOrder, mover: UnitOrder) -> int:
    """The strength that a move has to exceed on account of a unit that stayed where it leads."""
    if unit.kind != "-" or unit.target == mover.place:  # it stays by order, or they meet head to head
        return movement.strength(unit)
    return 1  # it failed to leave, and stays with its own strength


def _left(unit: UnitOrder) -> bool:
    return unit.kind == "-" and unit.worked
