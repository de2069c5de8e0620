"""Questions to a listener in saved games: what a power knew of a partner, and what the partner then did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from services.environments.diplomacy.measures.press.history import negotiated_phases
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.ledger import tested_promises
from services.environments.diplomacy.press.table import PressRules, PressTable
from services.environments.diplomacy.press.view import PressPosition
from services.environments.diplomacy.rules.orders import check


@dataclass(frozen=True, slots=True)
class Question:
    """A reader and one partner before a movement phase, and what came of it."""

    view: PressPosition  # the reader's, with orders due
    reader: str
    partner: str
    orders: tuple[str, ...]  # the partner's legal ones
    kept: bool | None  # whether it kept all its promises to the reader; None: none of them could be broken


def questions(document: Mapping[str, Any], name: str) -> Iterator[Question]:
    """The questions of a document that ``read_saved_game`` returned, of every pair of powers with units.

    Votes for a draw are not saved, so promises of them are left out. Raises as ``negotiated_phases``.
    """
    table = PressTable(PressRules(rounds=0, public=True, longest=100_000))
    for phase in negotiated_phases(document, name):
        position = phase.position
        for number in sorted({letter.round for letter in phase.letters}):
            lines: dict[str, list[str]] = {}
            for letter in phase.letters:
                if letter.round == number:
                    lines.setdefault(letter.sender, []).append(f"{letter.recipient} {letter.text}")
            table.take(position, lines)
        kept: dict[tuple[str, str], bool] = {}
        views = {power: table.view(position, power) for power in POWERS if position.units.get(power)}
        for giver, partner, is_kept in tested_promises(table.settle(position, phase.orders, ())):
            kept[giver, partner] = kept.get((giver, partner), True) and is_kept
        given = {power: check(phase.orders.get(power, ()), position, power).actions for power in views}
        for reader, view in views.items():
            for partner in views:
                if partner != reader:
                    yield Question(view, reader, partner, given[partner], kept.get((partner, reader)))
