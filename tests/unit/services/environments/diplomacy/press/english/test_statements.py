"""Which sentences of a letter are its writer's own, whatever lines they stand in, and which of them may answer."""

from __future__ import annotations

import pytest

from tests.unit.services.environments.diplomacy.press.english.test_misreadings import meant

GAPS = (" ", "\n", "\n\n")


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize(
    "limit",
    ["However, I cannot support you.", "But only with the peace.", "Yet I cannot support you.", "Just not the draw.",
     "Not the draw, though.", "Apart from the draw.", "With one exception.", "Well, not all of it.",
     "I cannot support you, however.", "Italy wrote this.", "Thus spoke Italy.", "Those were Italy's words."],
)  # fmt: skip
def test_a_yes_that_the_next_sentence_limits_accepts_nothing(limit: str, gap: str) -> None:
    assert meant(f"I accept.{gap}{limit}") == []
    assert meant(f"I accept.{gap}I am glad.{gap}{limit}") == ["ACCEPT"], "it limits something else"


@pytest.mark.parametrize(
    "after",
    ["No problem.", "Thank you.", "I will write again.", "Italy wrote to me today.", "That is my answer.",
     "You have my word on it."],
)  # fmt: skip
def test_a_yes_that_is_not_limited_accepts(after: str) -> None:
    assert meant(f"I accept. {after}") == ["ACCEPT"]


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize(
    "taken_back",
    ["Just kidding.", "Or not.", "I think not.", "Of course not.", "Forget it.", "I did not mean that.", "I lied.",
     "I take it back.", "That was a joke.", "Only if you leave Munich."],
)  # fmt: skip
def test_what_is_taken_back_binds_to_nothing(taken_back: str, gap: str) -> None:
    for said in ("Let us have peace.", "I accept.", "I will move to Belgium."):
        assert meant(f"{said}{gap}{taken_back}") == []


def test_a_no_takes_back_and_answers_no_question_of_the_writers_own() -> None:
    assert meant("Peace? No.") == []
    assert meant("Let us have peace. No!") == ["REJECT"]
    assert meant("Let us have peace. No tricks.") == ["PEACE"]


@pytest.mark.parametrize(
    "text",
    ["Why did Italy attack? Sure, who knows. Okay.", "Will I attack you? Well... Yes.", "(Will I attack you?) Yes.",
     "Will I attack you?!\n\nYes.", "Will I attack you? :-) Yes.", "Do I want war?\nNo."],
)  # fmt: skip
def test_an_answer_to_a_question_of_ones_own_answers_no_proposal(text: str) -> None:
    assert meant(text) == []
    assert meant(f"{text} Now to what you have proposed to me. I accept it.") == ["ACCEPT"]


@pytest.mark.parametrize(
    "speaker",
    ["Italy:", "Italy to Germany:", "Italy to me:", "ITALY -> FRANCE:", "From Italy:", "The Italians:", "@Italy:",
     "**Italy:**", "From the Italian king:", "The king of Italy:", "Italy wrote to me:", "He told Italy this:"],
)  # fmt: skip
def test_a_speaker_before_a_colon_speaks_for_the_rest_of_the_line_or_the_lines_below(speaker: str) -> None:
    assert meant(f"{speaker} let us have peace.") == []
    assert meant(f"{speaker} I like you. Let us have peace. I accept.") == []
    assert meant(f"{speaker}\n\nLet us have peace.\nACCEPT") == []


@pytest.mark.parametrize(
    "speaker", ["France:", "France to Germany:", "To: Germany\nFrom: France\n", "Subject: Italy\n"]
)
def test_the_writers_own_name_is_that_of_a_speaker_who_means_it(speaker: str) -> None:
    assert meant(f"{speaker}\nPEACE") == ["PEACE"]
    assert meant(f"{speaker} I am well. Let us have peace.") == ["PEACE"]


def test_the_rest_of_an_order_may_stand_in_the_next_line() -> None:
    assert meant("WILL A MAR S A BUR\n- GAS") == ["WILL A MAR S A BUR - GAS"]
    assert meant("I will order A MAR S A BUR\n\u2013 GAS.") == ["WILL A MAR S A BUR - GAS"]
    assert meant("WILL A MAR S A BUR\n- PEACE") == ["WILL A MAR S A BUR", "PEACE"]
