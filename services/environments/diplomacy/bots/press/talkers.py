"""Bots that negotiate, in the compact language, each in one fixed way.

========  ==================  =====================================================  ==============================
name      proposes            answers                                                orders
========  ==================  =====================================================  ==============================
honest    peace, then help    accepts what it can keep                               keeps what it has promised
keeper    nothing             accepts what it can keep                               keeps what it has promised
breaker   peace, then help    accepts everything                                     attacks its partners in peace
stabber   nothing             accepts everything                                     attacks its partners in peace
chatter   anything            anything                                               another bot's
========  ==================  =====================================================  ==============================
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal, cast

from services.environments.diplomacy.bots.press.promised_orders import breaking, keeping
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.deeds import helps
from services.environments.diplomacy.press.letters import EVERYBODY
from services.environments.diplomacy.press.promises import Promise, PromiseKind, breaks
from services.environments.diplomacy.press.proposals import JOINT, SILENCE, Proposal
from services.environments.diplomacy.press.sayable import partners, sayable, sayable_to_all
from services.environments.diplomacy.press.view import PressPosition, writes_press
from services.environments.diplomacy.rules.draw_votes import accepts_draw
from services.environments.playing import Bot

_MOST_LENT = 0.5  # share of its units whose orders an honest bot lets others decide


class NegotiatingBot(Bot):
    """Proposes peace and asks for help, or only answers; keeps its promises, or attacks the powers that trust it."""

    def __init__(self, bot: Bot, *, proposes: bool, keeps: bool) -> None:
        """``bot`` gives the orders that promises change."""
        self._bot = bot
        self.is_slow = bot.is_slow
        self._proposes = proposes
        self._keeps = keeps

    def actions(self, position: Position, power: str, seed: int) -> tuple[str, ...]:
        """Letters, or orders."""
        if writes_press(position):
            return tuple(self._letters(position, power, seed))
        orders = self._bot.actions(position, power, seed)
        if not isinstance(position, PressPosition) or position.kind != "M":
            return orders
        promises = position.press.promises
        if self._keeps:
            return keeping(orders, position, power, promises)
        return breaking(orders, position, power, promises, random.Random(seed))

    def _letters(self, position: PressPosition, power: str, seed: int) -> Iterator[str]:
        press = position.press
        given = [promise for promise in press.promises if promise.giver == power]
        at_peace = {promise.partner for promise in given if promise.kind in ("PEACE", "ALLY")}
        offered = {letter.recipient for letter in press.letters if letter.sender == power}
        # What it has proposed may be accepted while it answers, and then binds it as well.
        given += [
            promise
            for letter in press.letters
            if letter.sender == power
            for promise in _if_accepted(power, letter.recipient, letter.says, position.phase, ("PEACE",))
        ]
        for partner in partners(position, power):
            if partner in press.waiting:
                further = _if_accepted(power, partner, press.waiting[partner], position.phase, ("ASK", *JOINT))
                accepts = not self._keeps or _can_keep([*given, *further], position, power)
                given += further if accepts else []
                yield f"{partner} {'ACCEPT' if accepts else 'REJECT'}"
            elif self._proposes:
                if partner in at_peace:
                    line = self._request(position, power, partner, seed)
                else:
                    line = None if partner in offered else "PEACE"
                if line is not None:
                    yield f"{partner} {line}"

    def _request(self, position: PressPosition, power: str, partner: str, seed: int) -> str | None:
        """Ask the partner to support one of the moves that the bot would make now, where it can."""
        moves = {order for order in self._bot.actions(position, power, seed) if " - " in order and " S " not in order}
        supports = [
            order
            for place in position.orderable.get(partner, ())
            for order in position.legal[place]
            if helps(order, position, partner, power) and order.partition(" S ")[2] in moves
        ]
        return f"ASK {random.Random(seed).choice(sorted(supports))}" if supports else None


def _if_accepted(
    power: str, partner: str, proposals: Iterable[Proposal], phase: str, kinds: Collection[str]
) -> list[Promise]:
    """What ``power`` promises the partner if the proposals of these kinds are accepted."""
    return [
        Promise(power, partner, "ORDER" if each.kind == "ASK" else cast("PromiseKind", each.kind), each.about, phase)
        for each in proposals
        if each.kind in kinds
    ]


def _can_keep(promises: Sequence[Promise], position: Position, power: str) -> bool:
    """Whether one sheet keeps all of these, and others decide the orders of few enough units.

    It votes for a draw where bots do.
    """
    if any(promise.kind == "DRAW" for promise in promises) and not accepts_draw(position, power):
        return False
    orders = {promise.about for promise in promises if promise.kind == "ORDER"}
    if len({_place(order) for order in orders}) < len(orders) or len(orders) > _MOST_LENT * len(position.units[power]):
        return False
    rest = [promise for promise in promises if promise.kind not in ("ORDER", "DRAW")]
    return not any(breaks(promise, order, position) for promise in rest for order in orders)


class ChatterBot(Bot):
    """Says random lines; its orders do not depend on them."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot
        self.is_slow = bot.is_slow

    def actions(self, position: Position, power: str, seed: int) -> tuple[str, ...]:
        """A random line to each power, and to all where that is delivered, or the other bot's orders."""
        if not writes_press(position):
            return self._bot.actions(position, power, seed)
        rng, waiting = random.Random(seed), position.press.waiting
        said = {
            partner: _any_line(sayable(position, power, partner, answers=partner in waiting), rng)
            for partner in partners(position, power)
        }
        if position.press.public:
            said[EVERYBODY] = _any_line(sayable_to_all(position, power), rng)
        return tuple(f"{partner} {line}" for partner, line in said.items() if line != SILENCE)


def _any_line(lines: tuple[str, ...], rng: random.Random) -> str:
    """One of the lines, each kind of them equally often."""
    kinds = sorted({line.partition(" ")[0] for line in lines})
    kind = rng.choice(kinds)
    return rng.choice([line for line in lines if line.partition(" ")[0] == kind])


TalkerName = Literal["honest", "keeper", "breaker", "stabber", "chatter"]


def make_talker(name: TalkerName, bot: Bot) -> Bot:
    """One of the bots in the table above, with the orders of ``bot``."""
    if name == "chatter":
        return ChatterBot(bot)
    return NegotiatingBot(bot, proposes=name in ("honest", "breaker"), keeps=name in ("honest", "keeper"))


def _place(order: str) -> str:
    return order[2:].partition(" ")[0]
