"""A position as compact text for a word-level tokenizer, and all words of such texts.

A unit with its place is one word (``A PAR``, ``F STP/SC``); so are a province, a power, an order mark and the
end of a line. Spaces and ``, ; ( )`` are for human readers and are no words.

Example, 67 words::

    FRANCE SPRING-MOVES 1901; A MAR, A PAR, F BRE (BRE MAR PAR); GERMANY A BER, A MUN, F KIE (BER KIE MUN);
    ...; NEUTRAL (BEL BUL DEN ...) ORDERS
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.draw_votes import DRAW
from services.environments.diplomacy.rules.legal import standard_map
from services.environments.diplomacy.rules.orders import WORD_PATTERN

_WORD = re.compile(WORD_PATTERN)

_SEASONS = {"S": "SPRING", "F": "FALL", "W": "WINTER"}
_KINDS = {"M": "MOVES", "R": "RETREATS", "A": "BUILDS"}
_ORDER_MARKS = ("-", "H", "S", "C", "VIA", "R", "D", "B", "WAIVE", "\n")
_BOARD_MARKS = ("BUILD", "DISBAND", "DISLODGED", "NEUTRAL", "ORDERS")
_YEARS = range(1901, 2001)  # the engine draws a game after 100 years
_COUNTS = range(1, 35)  # adjustments; no power can hold more than all 34 centres


@cache
def words() -> tuple[str, ...]:
    """Return all words of prompts and orders, sorted."""
    board = standard_map()
    places = {place.upper() for place in board.locs if board.area_type(place) != "SHUT"}
    units = {f"{kind} {place}" for kind in "AF" for place in places if board.is_valid_unit(f"{kind} {place}")}
    phases = {f"{season}-{kind}" for season in ("SPRING", "FALL") for kind in ("MOVES", "RETREATS")}
    numbers = {str(number) for numbers in (_YEARS, _COUNTS) for number in numbers}
    fixed = {*POWERS, *_ORDER_MARKS, *_BOARD_MARKS, "WINTER-BUILDS"}
    return tuple(sorted(places | units | phases | numbers | fixed))


def render(position: Position, power: str, *, draw_votes: bool = False) -> str:
    """Describe the position for ``power``: power and phase, its own block, the others, free centres.

    The others follow in the order of ``POWERS`` after ``power``, without eliminated ones. Dislodged units are listed
    after their power's centres, each with its free retreats. With ``draw_votes`` the head ends with the powers that
    voted for a draw last.
    """
    start = POWERS.index(power)
    others = (POWERS[(start + step) % len(POWERS)] for step in range(1, len(POWERS)))
    head = [f"{power} {_SEASONS[position.season]}-{_KINDS[position.kind]} {position.year}"]
    if owed := position.adjustments.get(power, 0):
        head.append(f"BUILD {owed}" if owed > 0 else f"DISBAND {-owed}")
    if draw_votes and position.draw_vote is not None and position.draw_vote.wanted:
        head.append(" ".join((DRAW, *position.draw_vote.wanted)))
    shared: tuple[dict[str, str], str] | None = position.memo.get(render)
    if shared is None:
        shared = position.memo[render] = ({name: _block(position, name) for name in POWERS}, _end(position))
    blocks, end = shared
    parts = ["; ".join(head), blocks[power], *(f"{other} {blocks[other]}" for other in others if blocks[other]), end]
    return "; ".join([part for part in parts if part])


def split(text: str) -> list[str]:
    """Return the words of a prompt or an order sheet."""
    return _WORD.findall(text)


def join(words: Sequence[str]) -> str:
    """Return the text of an order sheet's words; ``join(split(sheet)) == sheet`` for canonical orders."""
    return re.sub(r" ?\n ?", "\n", " ".join(words))


def _end(position: Position) -> str:
    owned = {center for centers in position.centers.values() for center in centers}
    free = sorted(set(standard_map().scs) - owned)
    return f"NEUTRAL ({' '.join(free)}) ORDERS" if free else "ORDERS"


def _block(position: Position, power: str) -> str:
    """Return units, owned centres and dislodged units of one power; empty without any."""
    parts = []
    if units := position.units.get(power, ()):
        parts.append(", ".join(units))
    if centers := position.centers.get(power, ()):
        parts.append(f"({' '.join(centers)})")
    for unit, retreats in position.dislodged.get(power, {}).items():
        parts.append(" ".join(("DISLODGED", unit, *retreats)))
    return " ".join(parts)
