"""A negotiation: which proposals wait for an answer, and what powers have bound themselves to."""

from __future__ import annotations

from collections.abc import Iterable

from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.letters import EVERYBODY, Letter
from services.environments.diplomacy.press.promises import Promise, PromiseKind
from services.environments.diplomacy.press.proposals import ANSWERS, JOINT, Proposal


class Negotiation:
    """The rounds before one movement phase: which proposals are open, and what has been promised so far."""

    def __init__(self, position: Position) -> None:
        self._position = position
        self._open: dict[tuple[str, str], list[Proposal]] = {}  # (sender, recipient) -> proposals without an answer
        self._promises: dict[tuple[str, ...], Promise] = {}  # by who promises whom what: see ``_bind``

    @property
    def promises(self) -> tuple[Promise, ...]:
        """The promises of this negotiation, in the order in which they were made."""
        return tuple(self._promises.values())

    def open(self, sender: str, recipient: str) -> tuple[Proposal, ...]:
        """What ``sender`` has proposed to ``recipient`` that waits for an answer."""
        return tuple(self._open.get((sender, recipient), ()))

    def add_round(self, letters: Iterable[Letter]) -> None:
        """Take the letters of one round, which all were written without knowing the others'.

        Answers mean the proposals of earlier rounds. Two powers that propose the same to each other in one round have
        agreed. A power that promises another order of a unit to the same partner has changed its mind openly: only the
        last one binds it. Letters to all powers bind no power.
        """
        private = [letter for letter in letters if letter.recipient != EVERYBODY]
        for letter in private:
            pair = letter.sender, letter.recipient
            for proposal in letter.says:
                if proposal.kind in ANSWERS:
                    self._answer(pair, accepted=proposal.kind == "ACCEPT")
        for letter in private:
            pair = letter.sender, letter.recipient
            for proposal in letter.says:
                self._propose(pair, proposal)

    def _answer(self, pair: tuple[str, str], *, accepted: bool) -> None:
        power, partner = pair
        for proposal in self._open.pop((partner, power), ()):
            if accepted:
                self._agree(partner, power, proposal)

    def _propose(self, pair: tuple[str, str], proposal: Proposal) -> None:
        power, partner = pair
        if proposal.kind == "WILL":
            self._bind(power, partner, "ORDER", proposal.about)
        elif proposal.kind == "ASK":
            if self._is_legal(proposal.about, partner) and proposal not in self._open.setdefault(pair, []):
                self._open[pair].append(proposal)
        elif proposal.kind in JOINT and not self._binds_nobody(proposal, pair):
            theirs = self._open.get((partner, power), [])
            if proposal in theirs:
                theirs.remove(proposal)
                self._agree(power, partner, proposal)
            elif proposal not in self._open.setdefault(pair, []):
                self._open[pair].append(proposal)

    def _agree(self, proposer: str, other: str, proposal: Proposal) -> None:
        match proposal.kind:
            case "ASK":
                self._bind(other, proposer, "ORDER", proposal.about, is_asked_for=True)
            case "PEACE" | "ALLY" | "DMZ" | "DRAW" as kind:
                self._bind(proposer, other, kind, proposal.about)
                self._bind(other, proposer, kind, proposal.about)

    def _bind(self, giver: str, partner: str, kind: PromiseKind, about: str, *, is_asked_for: bool = False) -> None:
        if kind == "ORDER" and not self._is_legal(about, giver):
            return
        what = about[2:].partition(" ")[0] if kind == "ORDER" else about  # one order for each place
        place = giver, partner, kind, what
        earlier = self._promises.get(place)
        if earlier is not None and earlier.about != about:
            del self._promises[place]  # the other order is promised last
            earlier = None
        is_asked_for = is_asked_for or (earlier is not None and earlier.is_asked_for)
        self._promises[place] = Promise(giver, partner, kind, about, self._position.phase, is_asked_for=is_asked_for)

    def _is_legal(self, order: str, power: str) -> bool:
        place = order[2:].partition(" ")[0]
        return place in self._position.orderable.get(power, ()) and order in self._position.legal[place]

    def _binds_nobody(self, proposal: Proposal, pair: tuple[str, str]) -> bool:
        if proposal.kind == "DRAW":
            return self._position.draw_vote is None
        return proposal.kind == "ALLY" and proposal.about in pair
