"""The compact press language: what one line of it proposes, declares or answers.

===============================  ======================================================================================
``PEACE``                        Neither of the two attacks the other until the end of the year.
``ALLY AGAINST GERMANY``         The same, and neither helps a unit of the third power.
``DMZ BUR``                      Neither of the two moves into the province until the end of the year.
``DRAW``                         Both vote for a draw in this phase.
``WILL A PAR S A MUN - BUR``     The sender gives this order in this phase; it is promised without an answer.
``ASK A MUN S A PAR - BUR``      The recipient gives this order in this phase.
``ACCEPT``, ``REJECT``           The answer to all that the recipient has proposed and that is still open.
``PASS``                         Nothing is said; no message is sent.
===============================  ======================================================================================

Promises are about the orders of movement phases: retreats and adjustments break none. Of several orders of one unit
that a power promises to the same partner before a phase, the last one counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from services.environments.diplomacy.position import POWERS

Kind = Literal["PEACE", "ALLY", "DMZ", "DRAW", "WILL", "ASK", "ACCEPT", "REJECT"]
SILENCE = "PASS"
JOINT: tuple[Kind, ...] = ("PEACE", "ALLY", "DMZ", "DRAW")  # promised by both once they are agreed
ANSWERS: tuple[Kind, ...] = ("ACCEPT", "REJECT")
MARKS = (
    "PEACE",
    "ALLY",
    "AGAINST",
    "DMZ",
    "DRAW",
    "WILL",
    "ASK",
    "ACCEPT",
    "REJECT",
    SILENCE,
)  # its words, orders aside
_ALONE: tuple[Kind, ...] = ("PEACE", "DRAW", "ACCEPT", "REJECT")
_PLACE = r"[A-Z]{3}(?:/[A-Z]{2})?"
_UNIT = rf"[AF] {_PLACE}"
_ORDER = re.compile(rf"{_UNIT} (?:H|- {_PLACE}(?: VIA)?|S {_UNIT}(?: - {_PLACE})?|C {_UNIT} - {_PLACE})")


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one line says."""

    kind: Kind
    about: str = ""  # the third power of ALLY, the province of DMZ, the order of WILL and ASK

    @property
    def text(self) -> str:
        """The line."""
        return " ".join(filter(None, ("ALLY AGAINST" if self.kind == "ALLY" else self.kind, self.about)))


def read(line: str) -> Proposal | None:
    """The proposal of a line in exactly this notation; None for ``PASS`` and anything else.

    Whether its order is legal, or its third power alive, depends on the position, which is not asked here.
    """
    for kind in _ALONE:
        if line == kind:
            return Proposal(kind)
    word, _, about = line.partition(" ")
    if word == "ALLY" and about.removeprefix("AGAINST ") in POWERS and about.startswith("AGAINST "):
        return Proposal("ALLY", about.removeprefix("AGAINST "))
    if word == "DMZ" and re.fullmatch(r"[A-Z]{3}", about):
        return Proposal("DMZ", about)
    if word == "WILL" and _ORDER.fullmatch(about):
        return Proposal("WILL", about)
    if word == "ASK" and _ORDER.fullmatch(about):
        return Proposal("ASK", about)
    return None
