"""The negotiations of a saved game: its letters, what they promised, and what the orders made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import msgspec

from grpo_core.errors import one_line
from services.environments.diplomacy.played_phases import played_phases, saved_phases
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.press.english.understanding import understand
from services.environments.diplomacy.press.ledger import Ledger
from services.environments.diplomacy.press.letters import EVERYBODY, Letter, rounds_of
from services.environments.diplomacy.press.negotiation import Negotiation
from services.environments.diplomacy.press.promises import Promise, Verdict
from services.environments.diplomacy.rules.orders import check
from services.environments.diplomacy.saved_game import SavedGameError


@dataclass(frozen=True, slots=True)
class NegotiatedPhase:
    """A movement phase of a saved game with the letters before it."""

    position: Position
    orders: Mapping[str, tuple[str, ...]]  # the legal ones; a file may have others, which the engine did not carry out
    results: Mapping[str, tuple[str, ...]]  # unit -> the engine's words, as in ``PastPhase``
    letters: tuple[Letter, ...]
    promises: tuple[Promise, ...]  # that were made before it
    verdicts: tuple[Verdict, ...]  # on all that bound a power in it


class _Message(msgspec.Struct):
    sender: str
    recipient: str
    message: str
    time_sent: int = 0


def negotiated_phases(document: Mapping[str, Any], name: str) -> Iterator[NegotiatedPhase]:
    """Yield the movement phases of a document that ``read_saved_game`` returned, in order.

    Letters of other programs have a time and no round; each is a round of its own, in order of time. Votes for a draw
    are not saved, so promises of them are left out. ``name`` is the file's, for errors. Raises SavedGameError for a
    damaged one.
    """
    ledger = Ledger()
    for number, (phase, saved) in enumerate(zip(played_phases(document, name), saved_phases(document), strict=True)):
        if phase.position.kind != "M":
            continue
        letters = _letters(saved.get("messages") or (), number, phase.position, name)
        negotiation = Negotiation(phase.position)
        for _, round_ in groupby(letters, key=lambda letter: letter.round):
            negotiation.add_round(tuple(round_))
        if not (any(phase.orders.values()) or any((saved.get("results") or {}).values())):
            continue  # a vote for a draw ended the game before these orders
        position = phase.position
        orders = {power: check(given, position, power).actions for power, given in phase.orders.items()}
        verdicts = ledger.settle(position, negotiation.promises, orders)
        results = {
            unit: tuple(word for each in words if (word := str(each)))
            for unit, words in (saved.get("results") or {}).items()
        }
        yield NegotiatedPhase(position, orders, results, letters, negotiation.promises, verdicts)


def _letters(messages: Sequence[Any], phase: int, position: Position, name: str) -> tuple[Letter, ...]:
    try:
        read = sorted(msgspec.convert(messages, list[_Message]), key=lambda message: message.time_sent)
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise SavedGameError(f"{name}: messages before {position.phase}: {one_line(error, 200)}") from error
    letters = []
    for each, round_ in zip(read, rounds_of([each.time_sent for each in read], phase), strict=True):
        if each.sender in POWERS and each.recipient in (*POWERS, EVERYBODY) and each.sender != each.recipient:
            says = understand(each.message, position, each.sender, each.recipient)
            letters.append(Letter(each.sender, each.recipient, each.message, position.phase, round_, says))
    return tuple(letters)
