"""The translator: what it says it understands, and how well it reads letters written by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.english.saying import say
from services.environments.diplomacy.press.english.understanding import understand
from services.environments.diplomacy.press.letters import Letter
from services.environments.diplomacy.press.negotiation import Negotiation
from services.environments.diplomacy.press.proposals import Proposal, read
from services.environments.diplomacy.press.sayable import partners, sayable
from tests.unit.services.environments.diplomacy.press.english.cases import CASES, UNITS
from tests.unit.services.environments.diplomacy.press.english.held_out import HELD_OUT

Cases = tuple[tuple[str, str, str, tuple[str, ...]], ...]


def position() -> Position:
    state = {**DiplomacyGame(1901).state(), "units": UNITS, "retreats": {}, "name": "S1902M"}
    return DiplomacyGame.from_state(state, 1905).position


@pytest.mark.parametrize(("cases", "precise", "complete"), [(CASES, 0.98, 0.98), (HELD_OUT, 0.97, 0.68)])
def test_letters_written_by_hand_are_understood(cases: Cases, precise: float, complete: float) -> None:
    """Precision and recall over all lines that the letters mean.

    ====================================================  ===========================  ==============================
    sentences                                             rules before                 rules since
    ====================================================  ===========================  ==============================
    the first 75 of ``CASES``                             1.00 precise, 1.00 complete  1.00 precise, 1.00 complete
    all 170 of ``CASES``, which the rules were made for   0.60 precise, 0.84 complete  1.00 precise, 1.00 complete
    188 of ``HELD_OUT``, which they were not made for     0.57 precise, 0.60 complete  0.986 precise, 0.69 complete
    ====================================================  ===========================  ==============================

    Of the 94 held-out letters that mean nothing 45 were misread before and one is since: irony. The held-out figures
    are those of the first measurement. It showed that "I promise that" and "I think" were never passed over, as they
    were meant to be; mended, two more of the 102 lines are found: 0.71 complete. One hand wrote both sets.
    """
    here = position()
    right = wrong = missed = 0
    mistakes = []
    for sender, recipient, text, lines in cases:
        found = Counter(proposal.text for proposal in understand(text, here, sender, recipient))
        meant = Counter(lines)
        right += (found & meant).total()
        wrong += (found - meant).total()
        missed += (meant - found).total()
        if found != meant:
            mistakes.append((text, dict(found), lines))
    precision, recall = right / (right + wrong), right / (right + missed)
    assert precision >= precise, (precision, mistakes)
    assert recall >= complete, (recall, mistakes)


def test_what_letters_written_by_hand_mean_can_be_ordered() -> None:
    here = position()
    assert len(HELD_OUT) >= 120
    assert not {text for _, _, text, _ in CASES} & {text for _, _, text, _ in HELD_OUT}
    for sender, recipient, text, lines in (*CASES, *HELD_OUT):
        for line in lines:
            proposal = read(line)
            assert proposal is not None, (text, line)
            if proposal.kind in ("WILL", "ASK"):
                giver, place = sender if proposal.kind == "WILL" else recipient, proposal.about[2:].partition(" ")[0]
                assert place in here.orderable[giver], (text, line)
                assert proposal.about in here.legal[place], (text, line)


@pytest.mark.parametrize(
    ("rounds", "promised"),
    [
        ([("Let us have peace.", ""), ("", "Ok, I will attack you now.")], False),
        ([("Let us have peace.", ""), ("", "Okay. I will attack you now.")], False),
        ([("Let us have peace.", ""), ("", "Deal, provided you leave Burgundy.")], False),
        ([("Peace is impossible.", "I am tired of peace.")], False),
        ([("Let us have peace.", ""), ("", "Agreed, thank you.")], True),
        ([("Let us have peace.", "I want peace.")], True),
    ],
)
def test_peace_binds_only_those_who_have_agreed_to_it(rounds: list[tuple[str, str]], promised: bool) -> None:
    here = position()
    negotiation = Negotiation(here)
    for number, (of_france, of_germany) in enumerate(rounds):
        said = [("FRANCE", "GERMANY", of_france), ("GERMANY", "FRANCE", of_germany)]
        negotiation.add_round(
            Letter(sender, recipient, text, here.phase, number, understand(text, here, sender, recipient))
            for sender, recipient, text in said
        )
    assert {(each.giver, each.kind) for each in negotiation.promises} == (
        {("FRANCE", "PEACE"), ("GERMANY", "PEACE")} if promised else set()
    )


def test_all_that_can_be_said_is_understood_when_it_is_said_in_english() -> None:
    here = position()
    said = understood = 0
    for power in UNITS:
        for partner in partners(here, power):
            for line in sayable(here, power, partner, answers=True)[1:]:
                proposal = read(line)
                assert proposal is not None
                said += 1
                found = understand(say(proposal, here, power), here, power, partner)
                assert len(found) <= 1, (line, found)
                understood += found == (proposal,)
    assert understood / said > 0.95


@pytest.mark.parametrize(
    ("line", "english"),
    [
        ("PEACE", "Let us have peace until the end of the year."),
        ("ALLY AGAINST GERMANY", "Let us be allies against Germany until the end of the year."),
        ("DMZ ENG", "Let us both stay out of the English Channel until the end of the year."),
        ("WILL A BUR - BEL", "I will move my army in Burgundy to Belgium."),
        ("ASK A RUH S A BUR - BEL", "Please support my army in Burgundy into Belgium with Germany's army in Ruhr."),
        ("WILL A BUR H", "I will hold with my army in Burgundy."),
        ("REJECT", "No, I do not agree."),
    ],
)
def test_lines_are_said_in_plain_english(line: str, english: str) -> None:
    proposal = read(line)
    assert proposal is not None
    assert say(proposal, position(), "FRANCE") == english


def test_lines_of_the_compact_language_within_a_letter_are_read_as_they_are() -> None:
    letter = "Dear friend,\nPEACE\nWILL A BUR - BEL\nYours"
    assert understand(letter, position(), "FRANCE", "GERMANY") == (Proposal("PEACE"), Proposal("WILL", "A BUR - BEL"))
