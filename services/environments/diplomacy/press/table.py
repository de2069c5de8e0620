"""The press of one game: rounds of letters before each movement phase, and the promises in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.press.conduct import ConductLog
from services.environments.diplomacy.press.english.understanding import understand
from services.environments.diplomacy.press.ledger import Ledger, without_repetitions
from services.environments.diplomacy.press.letters import EVERYBODY, NOTES, Letter, cleaned, letters_for
from services.environments.diplomacy.press.negotiation import Negotiation
from services.environments.diplomacy.press.promises import Verdict, at_peace
from services.environments.diplomacy.press.proposals import SILENCE
from services.environments.diplomacy.press.rewards import cooperation, honesty, joint_outcome
from services.environments.diplomacy.press.sayable import partners
from services.environments.diplomacy.press.view import PressPosition, PressView, with_press
from services.environments.diplomacy.rules.movement import read_movement
from services.environments.playing import Defect

SHORTEST = 4  # characters of a letter: DRAW


@dataclass(frozen=True, slots=True)
class PressRules:
    """How powers negotiate."""

    rounds: int = 2  # before each movement phase
    public: bool = False  # whether letters to everybody are delivered
    longest: int = 1000  # characters of a letter; more is cut off
    budget: int | None = None  # characters of all letters of a power in a game; None: no limit


class PressTable:
    """Delivers the letters of one game. In a round all powers write without knowing the others' letters."""

    def __init__(self, rules: PressRules) -> None:
        self.rules = rules
        self.ledger = Ledger()
        self._phase = ""
        self._round = 0
        self._negotiation: Negotiation | None = None
        self.conduct = ConductLog()
        self._letters: list[Letter] = []  # of this phase
        self._earlier: tuple[Letter, ...] = ()
        self._written: dict[str, int] = dict.fromkeys(POWERS, 0)  # characters of letters that were delivered
        self._notes: dict[str, str] = {}  # power -> what it wrote to itself last
        self._settled: tuple[Verdict, ...] = ()  # of the movement phase that was settled last

    def is_open(self, position: Position) -> bool:
        """Whether a round of letters comes before the orders."""
        self._enter(position)
        is_due = position.kind == "M" and bool(position.to_move) and self._round < self.rules.rounds
        return is_due and (self.rules.budget is None or bool(self.writers(position)))

    def writers(self, position: Position) -> tuple[str, ...]:
        """The powers that write: those that still have a unit or a centre, and something left of the budget."""
        there = (power for power in POWERS if position.units.get(power) or position.centers.get(power))
        return tuple(power for power in there if (left := self._left(power)) is None or left >= SHORTEST)

    def _left(self, power: str) -> int | None:
        """The characters that a power may still write; None: no limit."""
        return None if self.rules.budget is None else max(0, self.rules.budget - self._written[power])

    def view(self, position: Position, power: str) -> PressPosition:
        """The position as ``power`` sees it, with what it may read."""
        self._enter(position)
        negotiation = self._negotiation
        waiting, promises = {}, self.ledger.holding(position.phase)
        if negotiation is not None:
            promises = (*promises, *negotiation.promises)
            found = ((partner, negotiation.open(partner, power)) for partner in partners(position, power))
            waiting = {partner: proposals for partner, proposals in found if proposals}
        accounts = self.ledger.accounts
        return with_press(
            position,
            PressView(
                reader=power,
                rounds=self.rules.rounds,
                writes=self._round if self.is_open(position) else None,
                letters=letters_for(self._letters, power),
                earlier=letters_for(self._earlier, power),
                waiting=waiting,
                promises=without_repetitions(each for each in promises if power in (each.giver, each.partner)),
                accounts={giver: replace(own) for (giver, partner), own in accounts.items() if partner == power},
                longest=self.rules.longest,
                public=self.rules.public,
                notes=self._notes.get(power, ""),
                left=self._left(power),
            ),
        )

    def at_peace(self, position: Position, power: str) -> tuple[str, ...]:
        """The powers with which ``power`` has a peace or an alliance now, in the order of ``POWERS``.

        Promises of this negotiation count as soon as their round is over, so this is known before what is decided now.
        """
        self._enter(position)
        holding = self.ledger.holding(position.phase)
        return at_peace(holding if self._negotiation is None else (*holding, *self._negotiation.promises), power)

    def known_of(self, position: Position, partner: str, reader: str, *, hears: bool = True) -> PressPosition:
        """What ``reader`` knows of ``partner``'s view: the press between the two, or none of it.

        Letters to all powers are between all of them. What the partner has written to itself is left out.
        """
        found = self.view(position, partner)
        press = replace(found.press, notes="", left=None, letters=(), earlier=(), waiting={}, promises=(), accounts={})
        if hears:
            own = found.press
            press = replace(
                press,
                letters=letters_for(own.letters, reader),
                earlier=letters_for(own.earlier, reader),
                waiting={power: proposals for power, proposals in own.waiting.items() if power == reader},
                promises=tuple(each for each in own.promises if {each.giver, each.partner} == {partner, reader}),
                accounts={power: account for power, account in own.accounts.items() if power == reader},
            )
        return with_press(position, press)

    def without_letters_of(self, position: Position, speaker: str) -> PressTable:
        """A copy that looks as if ``speaker`` had written nothing before this movement phase; others wrote the same."""
        self._enter(position)
        other = copy(self)
        other._letters = [letter for letter in self._letters if letter.sender != speaker]
        if other._negotiation is not None:
            other._negotiation = Negotiation(position)
            for number in range(self._round):
                other._negotiation.add_round(letter for letter in other._letters if letter.round == number)
        return other

    def told(self, position: Position, speaker: str) -> tuple[str, ...]:
        """The powers that ``speaker`` has written to before this movement phase."""
        self._enter(position)
        to = {letter.recipient for letter in self._letters if letter.sender == speaker}
        return partners(position, speaker) if EVERYBODY in to else tuple(power for power in POWERS if power in to)

    def take(self, position: Position, lines: Mapping[str, Sequence[str]]) -> tuple[tuple[Letter, ...], list[Defect]]:
        """Deliver the letters of a round, each a line ``RECIPIENT text``, and go on to the next; returns them.

        A letter without a recipient, to its sender, to an eliminated power, or a second one to the same is a defect and
        not delivered, nor is one that is longer than what is left of its sender's budget; one that is too long, or has
        characters that do not show, is delivered without these. Nothing of this is left to do in letters that
        ``parse_letters`` has read. What a power writes to ``NOTES`` takes the place of its notes before.
        """
        self._enter(position)
        delivered: list[Letter] = []
        defects: list[Defect] = []
        for sender in POWERS:
            recipients = {*partners(position, sender), *((EVERYBODY,) if self.rules.public else ())}
            for line in lines.get(sender, ()):
                recipient, _, written = line.partition(" ")
                text, changes = cleaned(written, self.rules.longest)
                defects += [Defect(line, reason) for reason in changes]
                if recipient == NOTES:
                    self._notes[sender] = text
                elif recipient not in recipients:
                    defects.append(Defect(line, "no_recipient"))
                elif (left := self._left(sender)) is not None and text != SILENCE and len(text) > left:
                    defects.append(Defect(line, "no_budget"))
                elif text and text != SILENCE:
                    self._written[sender] += len(text)
                    recipients.remove(recipient)  # the first letter to each counts
                    says = understand(text, position, sender, recipient)
                    delivered.append(Letter(sender, recipient, text, position.phase, self._round, says))
        assert self._negotiation is not None
        self._negotiation.add_round(delivered)
        self._letters += delivered
        self._round += 1
        return tuple(delivered), defects

    def settle(
        self, position: Position, orders: Mapping[str, Sequence[str]], wanting_draw: Iterable[str]
    ) -> tuple[Verdict, ...]:
        """Compare the orders of a movement phase with what was promised before it, and end its negotiation."""
        self._enter(position)
        if position.kind != "M" or self._negotiation is None:
            return ()
        self._settled = self.ledger.settle(position, self._negotiation.promises, orders, wanting_draw)
        return self._settled

    def parts(
        self,
        position: Position,
        orders: Mapping[str, Sequence[str]],
        results: Mapping[str, Sequence[str]],
        changes: Mapping[str, int],
    ) -> dict[str, dict[str, float]]:
        """Count an adjudicated phase as conduct, and return the reward parts of press by power.

        ``results`` are the engine's words about each unit, ``changes`` the centres that each power gained.
        """
        holding = self.ledger.holding(position.phase)
        found = {power: {"joint_outcome": joint_outcome(holding, changes, power)} for power in POWERS}
        if position.kind == "M":
            self.conduct.add(position, orders, results, self._letters, self._settled)
            movement = read_movement(position.units, orders, results)
            for power, own in found.items():
                own["honesty"] = honesty(self._settled, power)
                own["cooperation"] = cooperation(movement, power)
        return found

    def _enter(self, position: Position) -> None:
        if position.phase == self._phase:
            return
        self._earlier += tuple(self._letters)
        self._letters, self._round = [], 0
        self._phase = position.phase
        self._negotiation = Negotiation(position) if position.kind == "M" else None
