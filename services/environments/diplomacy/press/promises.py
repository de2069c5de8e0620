"""Promises, and whether orders keep them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.press.deeds import deed, helps, is_against
from services.environments.diplomacy.press.proposals import Proposal

PromiseKind = Literal["PEACE", "ALLY", "DMZ", "DRAW", "ORDER"]
_COAST = re.compile(r"/[A-Z]{2}")
_TO_END_OF_YEAR = ("PEACE", "ALLY", "DMZ")


@dataclass(frozen=True, slots=True)
class Promise:
    """What one power has bound itself to towards another one."""

    giver: str
    partner: str
    kind: PromiseKind
    about: str  # the third power of ALLY, the province of DMZ, the order of ORDER; else ""
    phase: str  # the movement phase before which it was made
    is_asked_for: bool = False  # an ORDER that the partner asked for: it breaks no other promise to it

    @property
    def text(self) -> str:
        """What is promised, in the compact language."""
        return Proposal("WILL" if self.kind == "ORDER" else self.kind, self.about).text

    def holds_in(self, phase: str) -> bool:
        """Whether it binds in a movement phase: that of the promise or, until the end of the year, a later one."""
        return phase == self.phase or (self.kind in _TO_END_OF_YEAR and phase[1:5] == self.phase[1:5])


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a promise in a movement phase."""

    promise: Promise
    phase: str
    kept: bool
    tested: bool  # whether the giver had a legal order that breaks it


def at_peace(promises: Iterable[Promise], power: str) -> tuple[str, ...]:
    """The powers with which ``power`` has a peace or an alliance among these promises, in the order of ``POWERS``."""
    partners = {
        partner
        for promise in promises
        if promise.kind in ("PEACE", "ALLY") and power in (promise.giver, promise.partner)
        for partner in (promise.giver, promise.partner)
    }
    return tuple(partner for partner in POWERS if partner in partners and partner != power)


def verdict(promise: Promise, position: Position, orders: Sequence[str], *, wants_draw: bool = False) -> Verdict:
    """What the giver's legal orders in a movement phase make of a promise that holds in it."""
    legal = [order for place in position.orderable.get(promise.giver, ()) for order in position.legal[place]]
    if promise.kind == "DRAW":
        return Verdict(promise, position.phase, wants_draw, bool(position.orderable.get(promise.giver)))
    if promise.kind == "ORDER":
        place = promise.about[2:].partition(" ")[0]
        given = next(
            (order for order in orders if order[2:].partition(" ")[0] == place), f"{promise.about[:2]}{place} H"
        )
        return Verdict(promise, position.phase, _is_same(given, promise.about), len(position.legal[place]) > 1)
    kept = not any(breaks(promise, order, position) for order in orders)
    return Verdict(promise, position.phase, kept, any(breaks(promise, order, position) for order in legal))


def breaks(promise: Promise, order: str, position: Position) -> bool:
    """Whether a legal movement order of the giver breaks a promise of another kind than ORDER and DRAW."""
    giver, partner = promise.giver, promise.partner
    if promise.kind == "DMZ":
        done = deed(order, position, giver)
        return done.moves_itself and done.goal == promise.about
    if is_against(order, position, giver, partner):
        return True
    return promise.kind == "ALLY" and helps(order, position, giver, promise.about)


def _is_same(given: str, promised: str) -> bool:
    """Whether two legal orders are the same; the coast of a supported move may be left out."""
    supports = " S " in given and " S " in promised
    return given == promised or (supports and _COAST.sub("", given) == _COAST.sub("", promised))
