"""Alliances inferred from orders and kept promises, because the engine has none.

In a movement phase an order of power a *helps* power b when it supports or convoys a unit of b, and *works against* b
when it moves, or helps a unit of another power to move, to a province where b has a unit or a supply centre (b's own
unit excepted: helping it home is no attack). Both are determined from the position before the phase, whether or not
the order succeeds. A phase counts ``act(a, b) = sign(helps - attacks)``, so that large powers have no more weight; in
games with press a promise of peace or alliance that a kept though it could have been broken counts as one help. And

    standing(a, b) = sum over movement phases of DECAY ** age * act(a, b),    age 0 for the latest

Two powers are allied while ``standing(a, b) + standing(b, a) >= THRESHOLD``: a single support lasts one phase, mutual
support of several phases lasts for years, and an attack weighs as much as a support. The constants are a convention;
with them, a quarter of the seats of ten recorded games without press had an ally at the end of 1903.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from services.environments.diplomacy.position import POWERS, Position, segment
from services.environments.diplomacy.press.promises import Verdict

DECAY = 0.8
THRESHOLD = 1.0
NO_ALLY = "none"

Pair = tuple[str, str]  # the acting power and the other one
Standings = Mapping[Pair, float]  # without pairs that never interacted


def acts(position: Position, orders: Mapping[str, Sequence[str]]) -> dict[Pair, int]:
    """Return helps minus attacks of the legal ``orders`` in a movement phase, by pair; pairs without are left out."""
    if position.kind != "M":
        return {}
    holder = {unit[2:5]: power for power, units in position.units.items() for unit in units}
    owner = {center: power for power, centers in position.centers.items() for center in centers}
    out: dict[Pair, int] = {}
    for power, lines in orders.items():
        for order in lines:
            mark = 6 if order[5] == " " else 9  # after "A PAR " or "F STP/SC "
            kind, helped, dash = order[mark], power, mark
            if kind == "H":
                continue
            if kind != "-":  # "A MAR S A PAR - BUR", "A MAR S A PAR"
                helped = holder[order[mark + 4 : mark + 7]]
                if helped != power:
                    out[power, helped] = out.get((power, helped), 0) + 1
                dash = order.find("-", mark)
                if dash < 0:
                    continue
            goal = order[dash + 2 : dash + 5]
            there, theirs = holder.get(goal, power), owner.get(goal, power)
            if there != power and there != helped:
                out[power, there] = out.get((power, there), 0) - 1
            if theirs != there and theirs != power and theirs != helped:
                out[power, theirs] = out.get((power, theirs), 0) - 1
    return out


def updated_standings(
    standings: Standings,
    position: Position,
    orders: Mapping[str, Sequence[str]],
    verdicts: Iterable[Verdict] = (),
) -> Standings:
    """Return the standings after the orders of ``position``; only movement phases change them.

    ``verdicts`` are those on promises that held in it.
    """
    if position.kind != "M":
        return standings
    out = {pair: DECAY * value for pair, value in standings.items()}
    done = acts(position, orders)
    for pair in {(each.promise.giver, each.promise.partner) for each in verdicts if _is_peace_kept(each)}:
        done[pair] = done.get(pair, 0) + 1
    for pair, net in done.items():
        out[pair] = out.get(pair, 0.0) + (net > 0) - (net < 0)
    return out


def _is_peace_kept(verdict: Verdict) -> bool:
    return verdict.kept and verdict.tested and verdict.promise.kind in ("PEACE", "ALLY")


def allies(standings: Standings, power: str) -> tuple[str, ...]:
    """Return the powers allied with ``power``, sorted."""
    others = sorted({name for pair in standings for name in pair} - {power})
    return tuple(
        other
        for other in others
        if standings.get((power, other), 0.0) + standings.get((other, power), 0.0) >= THRESHOLD
    )


class AllianceYears:
    """Counts the years of a game at whose end each two powers were still there, and those in which they were allied."""

    def __init__(self) -> None:
        self._standings: Standings = {}
        self.years: Counter[Pair] = Counter()
        self.allied: Counter[Pair] = Counter()

    def add(self, position: Position, orders: Mapping[str, Sequence[str]], verdicts: Iterable[Verdict]) -> None:
        """Take a phase as ``updated_standings`` does; a year ends with the orders of its autumn."""
        self._standings = updated_standings(self._standings, position, orders, verdicts)
        if position.kind != "M" or not position.phase.startswith("F"):
            return
        there = [power for power in POWERS if position.units.get(power) or position.centers.get(power)]
        for power in there:
            found = allies(self._standings, power)
            for other in there:
                if other != power:
                    self.years[power, other] += 1
                    self.allied[power, other] += other in found


class AllianceLog:
    """Follows the phases of one game in order, from the phase at which it is created."""

    def __init__(self) -> None:
        self._standings: Standings = {}
        self._segment: str | None = None
        self._at_segment: Standings = {}  # at the start of the current segment, of surviving powers
        self._facts: dict[str, str] = {}  # by power, for the current segment

    def fact(self, position: Position, power: str) -> str:
        """Return the allies of ``power`` in the current position: ``"FRANCE+ITALY"``, or ``"none"``.

        Only phases before the current segment count, so the fact is known before the actions that are grouped by it.
        """
        self._enter(position)
        if power not in self._facts:
            self._facts[power] = "+".join(allies(self._at_segment, power)) or NO_ALLY
        return self._facts[power]

    def observe(
        self, position: Position, orders: Mapping[str, Sequence[str]], verdicts: Iterable[Verdict] = ()
    ) -> None:
        """Record the legal orders of every power in ``position``, and what came of promises; once a phase, in order."""
        self._enter(position)
        self._standings = updated_standings(self._standings, position, orders, verdicts)

    def _enter(self, position: Position) -> None:
        now = segment(position.phase)
        if now != self._segment:
            self._segment = now
            dead = {power for power in POWERS if not position.units.get(power) and not position.centers.get(power)}
            self._at_segment = {pair: value for pair, value in self._standings.items() if dead.isdisjoint(pair)}
            self._facts = {}
