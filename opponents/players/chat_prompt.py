"""A position as a conversation with a general chat model, the mask of its answer, and the parsing of the answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from services.environments.diplomacy.legal import standard_map
from services.environments.diplomacy.orders import OrderDefect, OrderSlot
from services.environments.diplomacy.position import POWERS, Position
from services.inference.chat_endpoint.client import Message

# Up to this many orders of one unit are all listed; in a longer list, support and convoys of other powers' units are
# only mentioned.
LONG_LIST = 60

# What is read of an answer: its last lines, and the beginning of each. A sheet has at most 34 short orders.
MOST_LINES, LONGEST_LINE = 1000, 200
_QUOTED_CHARACTERS, _QUOTED_DEFECTS = 20_000, 40  # in the request for a correction

_SEASONS = {"S": "Spring", "F": "Fall", "W": "Winter"}
_KINDS = {"M": "movement", "R": "retreats", "A": "adjustments"}
_RULES = """You play {power} in a game of Diplomacy on the standard map, without messages between the players. \
18 of the 34 supply centres win; every centre you hold after the autumn feeds one unit.

A unit is written with its province: A PAR is an army in Paris, F STP/SC a fleet on the south coast of St Petersburg. \
{notation}

Answer with your orders alone: one a line, capital letters, each exactly as in the list of legal orders, \
without numbers, comments or any other text."""
_NOTATION = {
    "M": "A PAR H holds. A PAR - BUR moves. A MAR S A PAR - BUR supports that move, A MAR S A PAR supports a unit that "
    "does not move. F NTH C A LON - NWY carries an army over sea, and A LON - NWY VIA is that army's move. "
    "Equal strengths bounce; a unit gives way to one with more support. Give every unit one order.",
    "R": "A PAR R GAS retreats, A PAR D disbands. Two units that retreat to one province are both lost. "
    "Give every dislodged unit one order.",
    "A": "A PAR B builds an army at home in Paris, F BRE B a fleet in Brest, WAIVE builds nothing, A RUH D disbands. "
    "No province can be built in, and no unit disbanded, twice.",
}
# A number or bullet before an order, and emphasis or code marks around it.
_DECORATION = re.compile(r"^\s*(?:(?:[-*•]|\d+[.):])\s+)?[`*]*|[`*]+\s*$")


def messages(position: Position, power: str, slots: Sequence[OrderSlot]) -> list[Message]:
    """The conversation that asks for ``power``'s order sheet; ``slots`` are those of ``orders.sheet``."""
    rules = _RULES.format(power=power, notation=_NOTATION[position.kind])
    return [
        {"role": "system", "content": rules},
        {"role": "user", "content": f"{_board(position)}\n\n{_task(position, power, slots)}"},
    ]


def correction(answer: str, defects: Sequence[OrderDefect]) -> list[Message]:
    """The messages that follow an answer which left units without an order."""
    quoted = defects[:_QUOTED_DEFECTS]
    wrong = "\n".join(f"{defect.order}: {defect.reason.replace('_', ' ')}" for defect in quoted)
    return [
        {"role": "assistant", "content": answer[-_QUOTED_CHARACTERS:]},
        {"role": "user", "content": f"That cannot stand:\n{wrong}\nWrite the whole list again, from the legal orders."},
    ]


def sheet_regex(slots: Sequence[OrderSlot]) -> str:
    r"""Matches any choice of one alternative per slot, one line each in the slots' order, with no final newline.

    It cannot express that no two builds or disbands may claim the same place. Orders contain no special characters of
    regular expressions, so every dialect reads it alike.
    """
    return r"\n".join(f"(?:{'|'.join(slot.alternatives)})" for slot in slots)


def order_lines(answer: str) -> str:
    """An answer stripped of what chat models put around orders: reasoning, fences, numbers, bullets, emphasis.

    Of a longer one, the last ``MOST_LINES`` lines and ``LONGEST_LINE`` characters of each.
    """
    _, closed, after = answer.rpartition("</think>")
    written = [line for line in (after if closed else answer).splitlines() if line.strip()]
    lines = [line.strip()[:LONGEST_LINE] for line in written[-MOST_LINES:]]
    return "\n".join(_DECORATION.sub("", line).strip() for line in lines if not line.startswith("```"))


def _board(position: Position) -> str:
    lines = [f"{_SEASONS[position.season]} {position.year}, {_KINDS[position.kind]}"]
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


def _task(position: Position, power: str, slots: Sequence[OrderSlot]) -> str:
    if position.kind != "A":
        lists = [_listed(slot.alternatives, position.units[power]) for slot in slots]
        return "\n".join([f"Legal orders of {power}, unit by unit:", *lists])
    owed = len(slots)
    what = f"build up to {owed}" if position.adjustments[power] > 0 else f"disband {owed}"
    return f"{power} must {what}; give {owed} order{'s' if owed > 1 else ''}. Legal orders:\n" + "\n".join(
        slots[0].alternatives
    )


def _listed(alternatives: Sequence[str], own: Sequence[str]) -> str:
    """``A PAR: A PAR H | A PAR - BUR | ...``; a long list leaves out help for other powers."""
    unit = " ".join(alternatives[0].split(" ", 2)[:2])
    shown = [order for order in alternatives if len(alternatives) <= LONG_LIST or _helps_own_units_only(order, own)]
    more = " | also supports and convoys of other powers' units" if len(shown) < len(alternatives) else ""
    return f"{unit}: {' | '.join(shown)}{more}"


def _helps_own_units_only(order: str, own: Sequence[str]) -> bool:
    words = order.split(" ")
    return words[2] not in ("S", "C") or " ".join(words[3:5]) in own
