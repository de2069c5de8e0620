"""How Kuhn poker is written: a hand in a few words, and one word in answer."""

from __future__ import annotations

from collections.abc import Sequence

from services.environments.kuhn.game import CARDS, SEATS, Hand
from services.environments.language import Language
from services.environments.playing import Slot


class KuhnLanguage(Language):
    """``FIRST K check bet ?`` is answered by ``call`` or ``fold``."""

    rules = "This is three-player Kuhn poker with the cards J, Q, K, A. Answer check or bet; after a bet, call or fold."
    example = "check"
    word_pattern = r"\n|[^\s]+"

    def words(self) -> Sequence[str]:
        """All words, and the end of a line."""
        return (*SEATS, *CARDS, "check", "bet", "fold", "call", "?", "\n")

    def prompt(self, view: Hand, seat: str) -> str:
        """Seat, card and what all have done."""
        return " ".join([seat, view.card, *view.history, "?"])

    def slots(self, view: Hand, seat: str) -> tuple[Slot, ...]:  # noqa: ARG002
        """One of two words."""
        return (Slot(view.choices, (None, None)),)
