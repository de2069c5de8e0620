"""What a listener is asked: which orders a partner will give, and whether it will keep what it has promised.

The prompt is the reader's own in compact notation, with the question at its end::

    FRANCE SPRING-MOVES 1902; ...; FROM ENGLAND PEACE; HOLDS ENGLAND PEACE; EXPECT ENGLAND
    FRANCE SPRING-MOVES 1902; ...; FROM ENGLAND PEACE; HOLDS ENGLAND PEACE; JUDGE ENGLAND KEPT 1 BROKE 3

With the press, the question ends with how many promises the partner has kept and broken, which tells most of all.
The answer to ``EXPECT`` is the partner's order sheet, that to ``JUDGE`` one word, ``KEPT`` or ``BROKE``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from services.environments.diplomacy.press.view import PressPosition
from services.environments.diplomacy.text.language import DiplomacyLanguage
from services.environments.diplomacy.text.press_language import PressLanguage
from services.environments.diplomacy.text.press_notation import ORDERS, account_words
from services.environments.language import Language
from services.environments.playing import Slot

KEPT, BROKE = "KEPT", "BROKE"
Asked = Literal["EXPECT", "JUDGE"]


@dataclass(frozen=True, slots=True)
class Heard:
    """What a listener is shown: a reader's view before a movement phase, and a question about one partner."""

    view: PressPosition  # with orders due
    partner: str
    asked: Asked
    hears: bool = True  # whether the prompt has the press


class ListenerLanguage(Language):
    """The language of a policy that predicts partners; its views are ``Heard``, its seats the readers."""

    example: ClassVar[str] = DiplomacyLanguage.example
    word_pattern: ClassVar[str] = DiplomacyLanguage.word_pattern

    def __init__(self) -> None:
        self._with, self._without = PressLanguage(), DiplomacyLanguage()

    def words(self) -> Sequence[str]:
        """Those of games with press, and the two questions."""
        return tuple(sorted({*self._with.words(), "EXPECT", "JUDGE"}))

    def prompt(self, view: Heard, seat: str) -> str:
        """The reader's prompt, with the question."""
        found = (self._with if view.hears else self._without).prompt(view.view, seat)
        account = view.view.press.accounts.get(view.partner) if view.hears else None
        known = f" {account_words(account)}" if account else ""
        return f"{found.removesuffix(ORDERS).rstrip('; ')}; {view.asked} {view.partner}{known}".rstrip()

    def slots(self, view: Heard, seat: str) -> tuple[Slot, ...]:  # noqa: ARG002
        """The partner's order sheet, or one of two words."""
        if view.asked == "JUDGE":
            return (Slot((KEPT, BROKE), (None, None)),)
        return self._without.slots(view.view, view.partner)

    def written(self, actions: Sequence[str], view: Heard, seat: str) -> tuple[str, ...]:  # noqa: ARG002
        """The partner's sheet with an order for every unit, or the word."""
        return tuple(actions) if view.asked == "JUDGE" else self._without.written(actions, view.view, view.partner)
