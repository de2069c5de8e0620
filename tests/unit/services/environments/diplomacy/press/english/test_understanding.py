"""The translator: what it says it understands, and how well it reads letters written by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.english.saying import say
from services.environments.diplomacy.press.english.understanding import understand
from services.environments.diplomacy.press.proposals import Proposal, read
from services.environments.diplomacy.press.sayable import partners, sayable
from tests.unit.services.environments.diplomacy.press.english.cases import CASES, UNITS
from tests.unit.services.environments.diplomacy.press.english.held_out import HELD_OUT


def position() -> Position:
    state = {**DiplomacyGame(1901).state(), "units": UNITS, "retreats": {}, "name": "S1902M"}
    return DiplomacyGame.from_state(state, 1905).position


def test_letters_written_by_hand_are_understood() -> None:
    here = position()
    right = wrong = missed = 0
    mistakes = []
    for sender, recipient, text, lines in CASES:
        found = Counter(proposal.text for proposal in understand(text, here, sender, recipient))
        meant = Counter(lines)
        right += (found & meant).total()
        wrong += (found - meant).total()
        missed += (meant - found).total()
        if found != meant:
            mistakes.append((text, dict(found), lines))
    precision, recall = right / (right + wrong), right / (right + missed)
    assert precision >= 0.95, (precision, mistakes)
    assert recall >= 0.9, (recall, mistakes)


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
