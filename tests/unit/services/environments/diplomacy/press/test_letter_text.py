"""Letters as chat models write them: whose they are, and what is counted as a defect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.letters import NOTES
from services.environments.diplomacy.text.press_language import PressLanguage
from tests.unit.services.environments.diplomacy.press.test_press_games import world

LANGUAGE = PressLanguage()
VIEW = world().new_game("", "FRANCE", 0).view("FRANCE")


def read(text: str) -> tuple[tuple[str, ...], list[str]]:
    answer = LANGUAGE.parse(text, VIEW, "FRANCE")
    return answer.actions, [defect.reason for defect in answer.defects]


@pytest.mark.parametrize(
    ("text", "letters", "defects"),
    [
        ("ENGLAND: Dear king,\npeace!\nRUSSIA PEACE", ("ENGLAND Dear king,\npeace!", "RUSSIA PEACE"), []),
        ("**ENGLAND:** hello", ("ENGLAND hello",), ["repaired"]),
        ("- To Germany: hello", ("GERMANY hello",), ["repaired"]),
        ("Italy: ciao\nGermany: hallo", ("ITALY ciao", "GERMANY hallo"), ["repaired", "repaired"]),
        ("**ITALY:** ciao\n**GERMANY:** hallo", ("ITALY ciao", "GERMANY hallo"), ["repaired", "repaired"]),
        ("ITALY: my plan:\nGermany: attack it", ("ITALY my plan:\nGermany: attack it",), []),
        ("ITALY: hear:\n> ENGLAND: peace\n- Notes: no", ("ITALY hear:\n> ENGLAND: peace\n- Notes: no",), []),
        ("> ITALY: you said peace", (), ["no_recipient"]),
        ("Here are my letters\nENGLAND: hello", ("ENGLAND hello",), ["no_recipient"]),
        ("ENGLAND: hello\nENGLAND: again", ("ENGLAND hello",), ["second_letter"]),
        ("FRANCE: to myself", (), ["no_recipient"]),
        ("GLOBAL: to all", (), ["no_recipient"]),  # these games have no public letters
        ("PASS", (), []),
        ("ENGLAND: PASS\nITALY: ", (), []),
        ("<think>ENGLAND: I lie</think>\nENGLAND: peace", ("ENGLAND peace",), []),
        ("NOTES: Russia lied.\nWatch it.", ("NOTES Russia lied.\nWatch it.",), []),
        ("ENGLAND: my plan is this: A PAR - BUR", ("ENGLAND my plan is this: A PAR - BUR",), []),
        ("", (), []),
    ],
)  # fmt: skip
def test_letters_of_a_text_are_told_apart_by_their_recipients(
    text: str, letters: tuple[str, ...], defects: list[str]
) -> None:
    assert read(text) == (letters, defects)


WORDS = (*"aZ :*\n>", "\n", "ENGLAND", "FRANCE", "NOTES", "GLOBAL", "PASS", "PEACE", "ENGLAND: ", "\u202e")


@given(st.lists(st.sampled_from(WORDS), max_size=60))
def test_every_text_is_letters_to_partners_and_defects(words: list[str]) -> None:
    letters, _ = read("".join(words))
    recipients = [letter.split(" ")[0] for letter in letters]
    assert len(set(recipients)) == len(recipients)
    assert set(recipients) <= {*POWERS, NOTES} - {"FRANCE"}


def test_notes_are_read_by_their_writer_alone_and_never_delivered() -> None:
    game = world(press_rounds=2).new_game("", "FRANCE", 0)
    game.step({"FRANCE": ("NOTES England is weak.\nGo north.", "ENGLAND PEACE")})
    views = {power: game.view(power) for power in POWERS}
    shown = {power: {part.name: part.text for part in LANGUAGE.sections(views[power], power)} for power in POWERS}
    assert shown["FRANCE"]["notes"] == "Your own notes:\n> England is weak.\n> Go north."
    assert not any("weak" in text for power in POWERS if power != "FRANCE" for text in shown[power].values())
    game.step({"FRANCE": ("NOTES Changed my mind.",)})
    game.step({})
    (notes,) = [part.text for part in LANGUAGE.sections(game.view("FRANCE"), "FRANCE") if part.name == "notes"]
    assert notes == "Your own notes:\n> Changed my mind."
    assert "weak" not in game.saved()


def test_lines_that_mean_nothing_cost_the_reward_for_format() -> None:
    game = world(press_rounds=1).new_game("", "FRANCE", 0)
    answer = LANGUAGE.parse("Sure!\nHere they are\n**ENGLAND:** hi", game.view("FRANCE"), "FRANCE")
    game.note_defects("FRANCE", answer.defects)
    parts = game.step({"FRANCE": answer.actions}).parts
    assert parts == {"FRANCE": {"format": -2.0}}
    assert "format" not in game.step({}).parts["FRANCE"]
