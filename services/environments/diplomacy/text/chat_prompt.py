"""A position as a conversation with a general chat model: the same for trained policies and for endpoints.

What never changes comes first, so that engines find it in their prefix cache.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from services.environments.diplomacy.position import POWERS, PastPhase, Position
from services.environments.diplomacy.rules.draw_votes import DRAW, takes_votes
from services.environments.diplomacy.rules.legal import standard_map
from services.environments.language import Section
from services.environments.playing import Slot

# Up to this many orders of one unit are all listed; in a longer list, support and convoys of other powers' units are
# only mentioned.
LONG_LIST = 60

_SEASONS = {"S": "Spring", "F": "Fall", "W": "Winter"}
_KINDS = {"M": "movement", "R": "retreats", "A": "adjustments"}
_RULES = """This is Diplomacy on the standard map, without messages between the players. 18 of the 34 supply centres \
win; every centre you hold after the autumn feeds one unit. Equal strengths bounce; a unit gives way to one with more \
support. Two units that retreat to one province are both lost. No province can be built in, no unit disbanded, twice.

A unit is written with its province: A PAR is an army in Paris, F STP/SC a fleet on the south coast of St Petersburg.
Movement: A PAR H holds. A PAR - BUR moves. A MAR S A PAR - BUR supports that move, A MAR S A PAR supports a unit that \
does not move. F NTH C A LON - NWY carries an army over sea, and A LON - NWY VIA is that army's move.
Retreats: A PAR R GAS retreats, A PAR D disbands.
Adjustments: A PAR B builds an army at home in Paris, F BRE B a fleet in Brest, WAIVE builds nothing, A RUH D disbands.

Give every unit one order. Answer with your orders alone: one a line, capital letters, each exactly as in the list of \
legal orders, without numbers, comments or any other text."""
_THINK = "Before you answer, think about what the others will do, in a few sentences."


def sections(
    position: Position,
    power: str,
    slots: Sequence[Slot],
    *,
    thinking: bool = False,
    left_out: Collection[str] = (),
    draw_votes: bool = False,
) -> list[Section]:
    """The parts of the prompt for ``power``'s order sheet, without those of ``DiplomacyLanguage.cuts`` in ``left_out``.

    ``slots`` are those of ``orders.sheet``. With ``thinking`` the model is asked to think first.
    """
    last = "\n\n".join(_past(phase) for phase in position.past)
    others = _others_moves(position, power)
    task = position.tasks.get(power, "")
    user: list[tuple[str, str]] = [
        ("task", f"Your task: {task}" if task else ""),
        ("position", _board(position)),
        ("last orders", f"Last orders:\n{last}" if last and "last orders" not in left_out else ""),
        ("moves of other powers", others if "moves of other powers" not in left_out else ""),
        ("legal orders", _task(position, power, slots, left_out)),
        ("draw", _draw(position, power) if draw_votes else ""),
    ]
    return [
        Section("rules", "system", _RULES),
        Section("country", "system", " ".join([f"You play {power}.", *([_THINK] if thinking else [])])),
        *(Section(name, "user", text) for name, text in user if text),
    ]


def _draw(position: Position, power: str) -> str:
    if not takes_votes(position, power):
        return ""
    assert position.draw_vote is not None
    wanted = ", ".join("you" if each == power else each for each in position.draw_vote.wanted)
    last = f" Last time {wanted} voted for it." if wanted else ""
    return (
        f"After your orders you may add a line {DRAW}: a vote to end the game now as a draw of all who still have a "
        f"centre. It ends so if everyone votes for it in the same phase.{last}"
    )


def _phase(phase: str) -> str:
    return f"{_SEASONS[phase[0]]} {phase[1:5]}, {_KINDS[phase[-1]]}"


def _board(position: Position) -> str:
    lines = [_phase(position.phase)]
    for power in POWERS:
        units, centers = position.units[power], position.centers[power]
        if not (units or centers or position.dislodged[power]):
            continue
        parts = [", ".join(units) or "no units", f"centres {' '.join(centers) or 'none'} ({len(centers)})"]
        if beaten := position.dislodged[power]:
            parts.append(f"dislodged {', '.join(beaten)}")
        lines.append(f"{power}: {'; '.join(parts)}")
    owned = {center for centers in position.centers.values() for center in centers}
    if free := sorted(set(standard_map().scs) - owned):
        lines.append(f"Centres without an owner: {' '.join(free)}")
    return "\n".join(lines)


def _past(past: PastPhase) -> str:
    """The orders of a phase by power, with what came of those that did not simply succeed."""
    lines = [_phase(past.phase)]
    for power, orders in past.orders.items():
        shown = []
        for order in orders:
            came_of = past.results.get(_unit_of(order), ())
            shown.append(f"{order} ({', '.join(came_of)})" if came_of else order)
        lines.append(f"{power}: {', '.join(shown)}")
    return "\n".join(lines)


def _others_moves(position: Position, power: str) -> str:
    """Which units of others can move to where ``power`` has a unit or a centre, or can move itself; else empty."""
    if position.kind != "M":
        return ""
    own = {unit[2:5] for unit in position.units[power]} | set(position.centers[power])
    own |= {place for unit in position.units[power] for place in _reached(position, unit)}
    threats: dict[str, list[str]] = {}
    for other in POWERS:
        for unit in position.units[other] if other != power else ():
            for place in _reached(position, unit) & own:
                threats.setdefault(place, []).append(f"{unit} ({other})")
    if not threats:
        return ""
    lines = [f"{place}: {', '.join(threats[place])}" for place in sorted(threats)]
    return "\n".join(["Units of other powers that can move to your places, or to where you can move:", *lines])


def _reached(position: Position, unit: str) -> set[str]:
    """The provinces to which a unit can move by itself, without a convoy."""
    moves = (order.split(" ") for order in position.legal.get(unit[2:], ()))
    return {words[3][:3] for words in moves if words[2] == "-" and words[-1] != "VIA"}


def _task(position: Position, power: str, slots: Sequence[Slot], left_out: Collection[str]) -> str:
    if position.kind != "A":
        if "legal orders" in left_out:
            return f"Write one order for each unit of {power}, in this order: {', '.join(map(_unit, slots))}."
        own = position.units[power]
        lists = [_listed(slot.alternatives, own, left_out) for slot in slots]
        return "\n".join([f"Legal orders of {power}, unit by unit:", *lists])
    owed = len(slots)
    what = f"build up to {owed}" if position.adjustments[power] > 0 else f"disband {owed}"
    return f"{power} must {what}; give {owed} order{'s' if owed > 1 else ''}. Legal orders:\n" + "\n".join(
        slots[0].alternatives
    )


def _listed(alternatives: Sequence[str], own: Sequence[str], left_out: Collection[str]) -> str:
    """``A PAR: A PAR H | A PAR - BUR | ...``; what is left out is mentioned."""
    unit = _unit_of(alternatives[0])
    if "all supports and convoys" in left_out:
        shown = [order for order in alternatives if order.split(" ")[2] not in ("S", "C")]
        more = "supports and convoys"
    elif "help for other powers' units" in left_out or len(alternatives) > LONG_LIST:
        shown = list(_own_help(alternatives, own))
        more = "supports and convoys of other powers' units"
    else:
        shown, more = list(alternatives), ""
    return f"{unit}: {' | '.join(shown)}" + (f" | also {more}" if len(shown) < len(alternatives) else "")


def _unit(slot: Slot) -> str:
    return _unit_of(slot.alternatives[0])


def _unit_of(order: str) -> str:
    return " ".join(order.split(" ", 2)[:2])


def _own_help(alternatives: Sequence[str], own: Sequence[str]) -> Iterator[str]:
    """The orders without supports and convoys of other powers' units."""
    for order in alternatives:
        words = order.split(" ")
        if words[2] not in ("S", "C") or " ".join(words[3:5]) in own:
            yield order
