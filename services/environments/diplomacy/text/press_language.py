"""Positions and press as prompts, and order sheets and letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.letters import EVERYBODY
from services.environments.diplomacy.press.view import PressPosition, writes_press
from services.environments.diplomacy.text.language import DiplomacyLanguage
from services.environments.diplomacy.text.letter_text import parse_letters
from services.environments.diplomacy.text.press_chat import CUTS, with_press_sections
from services.environments.diplomacy.text.press_notation import (
    letter_slots,
    press_words,
    with_letters,
    written_letters,
)
from services.environments.language import Section
from services.environments.playing import Answer, Slot


class PressLanguage(DiplomacyLanguage):
    """The language of games with press; without it the same games are played as if there were none."""

    cuts: ClassVar[tuple[str, ...]] = CUTS
    shortest_chat_prompt = 1100
    chat_is_free = True

    def __init__(
        self, *, draw_votes: bool = False, public: bool = False, without_press: DiplomacyLanguage | None = None
    ) -> None:
        """``public`` is whether letters to all powers are written and read in compact notation.

        ``without_press`` is the language of a policy that lacks the words of press; None: one without votes.
        """
        super().__init__(draw_votes=draw_votes)
        self._public = public
        self._without_press = without_press or DiplomacyLanguage()

    def optional_words(self) -> Sequence[str]:
        """The words of votes, of press, and of letters to all powers."""
        return (*super().optional_words(), *press_words(), *((EVERYBODY,) if self._public else ()))

    def without_optional_words(self) -> DiplomacyLanguage:
        """First the language without letters to all, then the one without votes, at last the one without press."""
        if self._public:
            return PressLanguage(draw_votes=self._votes, without_press=self._without_press)
        if self._votes:
            return PressLanguage(without_press=DiplomacyLanguage(draw_votes=True))
        return self._without_press

    def notes(self, view: Position, seat: str) -> Sequence[str]:
        """Those of an order sheet; none for letters."""
        return ("",) * len(self.slots(view, seat)) if writes_press(view) else super().notes(view, seat)

    def prompt(self, view: Position, seat: str) -> str:
        """The position, and the press that the seat may read."""
        found = super().prompt(view, seat)
        return with_letters(found, view, public=self._public) if isinstance(view, PressPosition) else found

    def sections(self, view: Position, seat: str, *, thinking: bool = False, cut: int = 0) -> Sequence[Section]:
        """Those of a game without press, with letters and promises, and with what is to be written."""
        found = super().sections(view, seat, thinking=thinking, cut=cut)
        return with_press_sections(found, view, self.cuts[:cut]) if isinstance(view, PressPosition) else found

    def slots(self, view: Position, seat: str) -> tuple[Slot, ...]:
        """One for each letter where letters are due; else those of an order sheet."""
        if writes_press(view):
            return letter_slots(view, public=self._public)
        return super().slots(view, seat)

    def is_free(self, view: Position, seat: str) -> bool:  # noqa: ARG002
        """Chat models write letters in their own words."""
        return writes_press(view)

    def parse(self, text: str, view: Position, seat: str, thought: str = "") -> Answer:
        """The letters in a text, or the orders."""
        if writes_press(view):
            return parse_letters(text, view)
        return super().parse(text, view, seat, thought)

    def written(self, actions: Sequence[str], view: Position, seat: str) -> tuple[str, ...]:
        """A letter for every slot, ``PASS`` where none was written; or an order for every slot."""
        if writes_press(view):
            return written_letters(actions, view, public=self._public)
        return super().written(actions, view, seat)
