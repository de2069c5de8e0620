"""How Diplomacy is written: compact notation and chat prompts in, order sheets out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from services.environments.diplomacy.position import CENTERS_TO_WIN, Position
from services.environments.diplomacy.press.view import writes_press
from services.environments.diplomacy.rules.draw_votes import BALLOT, DRAW, PLAY_ON, split_votes, takes_votes
from services.environments.diplomacy.rules.orders import WAIVE, WORD_PATTERN, parse, sheet
from services.environments.language import Language, Section
from services.environments.playing import Answer, Slot

MOST_UNITS = CENTERS_TO_WIN - 1  # of a power that has not won
_LONG_ORDERS = (
    "F NTH C A LON - NWY",
    "F BOT S F NWY - STP/NC",
    "F NWY S F LVN - STP/SC",
    "F RUM S F BLA - BUL/EC",
    "F STP/NC S A LON - NWY",
    "F STP/SC S A FIN - SWE",
)


class DiplomacyLanguage(Language):
    """Positions as prompts, and order sheets."""

    cuts: ClassVar[tuple[str, ...]] = (
        "moves of other powers",
        "last orders",
        "help for other powers' units",
        "all supports and convoys",
        "legal orders",
    )
    shortest_chat_prompt = 700
    longest_notes = 320
    has_coordination = True
    answer_title = "Orders"
    example = "A PAR - BUR"
    word_pattern = WORD_PATTERN

    def __init__(self, *, draw_votes: bool = False) -> None:
        """With ``draw_votes`` order sheets end with a vote wherever the position asks for one."""
        self._votes = draw_votes

    def words(self) -> Sequence[str]:
        """All words of prompts and orders, sorted."""
        from services.environments.diplomacy.text.notation import words

        optional = self.optional_words()
        return tuple(sorted({*words(), *optional})) if optional else words()

    def optional_words(self) -> Sequence[str]:
        """The words of votes."""
        return (DRAW, PLAY_ON) if self._votes else ()

    def without_optional_words(self) -> DiplomacyLanguage:
        """The language without votes."""
        return DiplomacyLanguage()

    def note_words(self) -> Sequence[str]:
        """The words of notes that are not among ``words``."""
        from services.environments.diplomacy.text.notes import note_words

        return note_words()

    def notes(self, view: Position, seat: str) -> Sequence[str]:
        """What lies around each unit that is ordered, and where builds and disbands are possible."""
        from services.environments.diplomacy.text.notes import notes

        found = notes(view, seat)
        return (*found, "") if self._takes_vote(view, seat) else found

    def prompt(self, view: Position, seat: str) -> str:
        """The position in a few dozen words."""
        from services.environments.diplomacy.text.notation import render

        return render(view, seat, draw_votes=self._votes)

    def sections(self, view: Position, seat: str, *, thinking: bool = False, cut: int = 0) -> Sequence[Section]:
        """Rules in brief, country, position, last orders, threats and legal orders."""
        from services.environments.diplomacy.text.chat_prompt import sections

        return sections(
            view, seat, sheet(view, seat), thinking=thinking, left_out=self.cuts[:cut], draw_votes=self._votes
        )

    def slots(self, view: Position, seat: str) -> tuple[Slot, ...]:
        """The slots of the order sheet, and of a vote where one is taken; none where letters are due."""
        if writes_press(view):
            return ()
        found = sheet(view, seat)
        return (*found, BALLOT) if self._takes_vote(view, seat) else found

    def coordinated(self, slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        """Let no two units move or retreat into one province: both would bounce, or be lost."""
        return tuple(replace(slot, claims=_entered(slot)) if slot.claims[0] is None else slot for slot in slots)

    def parse(self, text: str, view: Position, seat: str, thought: str = "") -> Answer:  # noqa: ARG002
        """The legal orders of a sheet, repaired where only one is possible, and a vote for a draw."""
        if not self._takes_vote(view, seat):
            return parse(text, view, seat, repair=True)
        lines, wanted = split_votes(text.split("\n"))
        answer = parse("\n".join(lines), view, seat, repair=True)
        return replace(answer, actions=(*answer.actions, DRAW)) if wanted else answer

    def written(self, actions: Sequence[str], view: Position, seat: str) -> tuple[str, ...]:
        """Find an order for every slot: units without one hold (or disband), builds without one are waived.

        Builds and disbands, whose sequence is free, are sorted, with waivers last. Who has not voted plays on.
        """
        if self._takes_vote(view, seat):
            orders, wanted = split_votes(actions)
            return (*DiplomacyLanguage().written(orders, view, seat), DRAW if wanted else PLAY_ON)
        slots = sheet(view, seat)
        if view.kind == "A":
            given = sorted(order for order in actions if order != WAIVE)[: len(slots)]
            if view.adjustments[seat] > 0:
                return (*given, *[WAIVE] * (len(slots) - len(given)))
            others = [order for order in (slots[0].alternatives if slots else ()) if order not in given]
            return (*given, *others[: len(slots) - len(given)])
        by_place = {order[2:].partition(" ")[0]: order for order in actions}
        default = "H" if view.kind == "M" else "D"
        return tuple(
            by_place.get(place) or next(order for order in slot.alternatives if order.endswith(f" {default}"))
            for place, slot in zip(view.orderable[seat], slots, strict=True)
        )

    def longest_answers(self) -> Sequence[Sequence[str]]:
        """Sheets of the most units with one long order each."""
        ballot = (PLAY_ON,) if self._votes else ()
        return tuple(((order,) * MOST_UNITS + ballot) for order in _LONG_ORDERS)

    def _takes_vote(self, view: Position, seat: str) -> bool:
        return self._votes and takes_votes(view, seat)


@lru_cache(maxsize=1 << 14)
def _entered(slot: Slot) -> tuple[str | None, ...]:
    """The province that each order of a unit moves or retreats into, as a claim; None for others."""
    words = (order.split(" ") for order in slot.alternatives)
    return tuple(f"into {each[3][:3]}" if len(each) > 3 and each[2] in ("-", "R") else None for each in words)
