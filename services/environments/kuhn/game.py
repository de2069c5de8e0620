"""Three-player Kuhn poker (Szafron, Gibson and Sturtevant 2013, AAMAS).

Each seat antes a chip and gets one of four cards. In turn, a seat checks or bets a chip; after a bet, each other seat
calls or folds. The highest card of those who did not fold takes the pot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from grpo_core.types import KeyValue
from services.environments.playing import Game, Result, Standing, Step

SEATS, CARDS = ("FIRST", "SECOND", "THIRD"), "JQKA"  # the lowest card first


class Hand(NamedTuple):
    """What one seat sees: its own card, and what all have done."""

    card: str
    history: tuple[str, ...]

    @property
    def choices(self) -> tuple[str, str]:
        """What the next seat may do, the passive choice first."""
        return ("fold", "call") if "bet" in self.history else ("check", "bet")


class KuhnGame(Game):
    """One deal: a card for each seat, "KJA"."""

    def __init__(self, deal: str) -> None:
        self._deal = dict(zip(SEATS, deal, strict=True))
        self._history: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether everyone has checked, or two have answered a bet."""
        opened = self._history.index("bet") if "bet" in self._history else 0
        return len(self._history) - opened == len(SEATS)

    def to_act(self) -> tuple[str]:
        """The next seat; the first one comes after the last."""
        return (SEATS[len(self._history) % len(SEATS)],)

    def view(self, seat: str) -> Hand:
        """The seat's own card, and what all have done."""
        return Hand(self._deal[seat], self._history)

    def start_facts(self, seat: str) -> Mapping[str, KeyValue]:
        """The seat's card."""
        return {"card": self._deal[seat]}

    def step(self, actions: Mapping[str, Sequence[str]]) -> Step:
        """Take one seat's choice; whatever is no choice counts as the passive one."""
        ((seat, written),) = actions.items()
        choices = self.view(seat).choices
        legal = len(written) == 1 and written[0] in choices
        self._history += (written[0] if legal else choices[0],)
        return Step({}, defects=int(not legal))

    def result(self) -> Result:
        """The chips that each seat won: -2 to 4."""
        did = {seat: self._history[number :: len(SEATS)] for number, seat in enumerate(SEATS)}
        paid = {seat: 1 + ("bet" in own or "call" in own) for seat, own in did.items()}
        winner = max((s for s in SEATS if "fold" not in did[s]), key=lambda seat: CARDS.index(self._deal[seat]))
        won = {seat: float(sum(paid.values()) * (seat == winner) - paid[seat]) for seat in SEATS}
        places = tuple(tuple(s for s in SEATS if won[s] == chips) for chips in sorted(set(won.values()), reverse=True))
        return Result(
            outcomes={seat: {"chips": won[seat], "won": float(seat == winner)} for seat in SEATS},
            parts={seat: {"chips": won[seat]} for seat in SEATS},
            standing=Standing({seat: (won[seat] + 2) / 6 for seat in SEATS}, places),
        )
