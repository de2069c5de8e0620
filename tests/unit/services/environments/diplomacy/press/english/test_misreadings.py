"""Letters that seem to bind their writer and do not: other times, other people's words, answers to oneself, marks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.environments.diplomacy.press.english import understanding
from services.environments.diplomacy.press.english.understanding import understand
from tests.unit.services.environments.diplomacy.press.english.test_understanding import position

HERE = position()


def meant(text: str) -> list[str]:
    return [proposal.text for proposal in understand(text, HERE, "FRANCE", "GERMANY")]


@pytest.mark.parametrize(
    "text",
    ["I will order $5 for lunch.", "Please order $1.", "I will order $0 and $0.", "$", "I will order A PAR H, $7."],
)
def test_a_letter_may_hold_the_marks_of_the_rules(text: str) -> None:
    assert set(meant(text)) <= {"WILL A PAR H"}


WORDS = (
    *(
        "I will order",
        "please",
        "#BUR",
        "@ITALY",
        "@you",
        "$0",
        "$12",
        "A MAR S A BUR",
        "-",
        "\u2013",
        "->",
        "to",
        "\n",
    ),
    *(":", "?", ".", '"', "'", "\u2039", "peace", "yes", "Burgundy", "in 1903", "let us have", "\u202e", "\x00", "no"),
)


@given(st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join))
def test_no_letter_is_too_odd_to_read(text: str) -> None:
    for each in understand(text, HERE, "FRANCE", "GERMANY"):
        assert each.kind not in ("WILL", "ASK") or each.about in HERE.legal[each.about[2:5]]


@pytest.mark.parametrize("dash", ["\u2013", "\u2014", "->", "=>", ">", "\u2192", "\u2212", "\u2010", "--", "-", " - "])
def test_a_support_keeps_its_goal_whatever_the_dash(dash: str) -> None:
    assert meant(f"I will order A MAR S A BUR{dash}GAS.") == ["WILL A MAR S A BUR - GAS"]
    assert meant(f"I will order A MAR S A BUR{dash}Gascony.") == []


@pytest.mark.parametrize(
    "goal",
    [
        "to GAS",
        "moving to GAS",
        "into Gascony",
        "- Gascony",
        "to Gascony",
        "attacking GAS",
        "GAS",
        "/ GAS",
        "(to GAS)",
        "for GAS",
        "in its move to GAS",
        ", which moves to GAS",
        "--> GAS",
        "\u2190 GAS",
        "| GAS",
        "as it goes to GAS",
    ],
)
def test_a_support_with_a_goal_in_words_is_no_support_to_hold(goal: str) -> None:
    assert meant(f"I will order A MAR S A BUR {goal}.") == []
    assert meant("I will order A MAR S A BUR to help you.") == []


@pytest.mark.parametrize("gap", ["\n", "\n\n", "\n \n\n"])
@pytest.mark.parametrize(
    "heading",
    ["I will never agree to:", "If you leave Burgundy, I offer this:", "I will not order the following:",
     "Italy's answer to me was:", "Here is what I told Italy:", "From: Italy", "ITALY TO GERMANY:", "Italy:"],
)  # fmt: skip
def test_a_heading_speaks_for_the_lines_below_it_also_after_a_blank_line(heading: str, gap: str) -> None:
    for line in ("PEACE", "WILL A BUR - MUN", "ACCEPT", "I will move to Belgium.", "Let us have peace."):
        assert meant(f"{heading}{gap}{line}") == []
        assert meant(f"{heading}{gap}Anything.\n\nPEACE") == ["PEACE"], "the next paragraph is the writer's"


@pytest.mark.parametrize("heading", ["I propose:", "Dear Germany:", "Germany:", "My plan:"])
def test_a_heading_of_the_writers_own_leaves_the_lines_below_it(heading: str) -> None:
    assert meant(f"{heading}\n\nPEACE") == ["PEACE"]


@pytest.mark.parametrize("text", ["Italy: let us have peace.", "\u2039Let us have peace.\u203a", "Italy: PEACE"])
def test_words_of_a_third_power_are_not_the_writers(text: str) -> None:
    assert meant(text) == []
    assert meant("Germany: let us have peace.") == ["PEACE"]


@pytest.mark.parametrize(
    "text",
    ["Will I attack you? Yes.", "Is Italy a danger to both of us? Yes.", "Do I trust you? No.",
     "Agreed. However, I can not support you in Burgundy.", "I agree. But only with the peace.", "Yes. And no.",
     "I accept. This is what Italy wrote.", "Will I attack you?\nYes."],
)  # fmt: skip
def test_an_answer_to_oneself_or_one_that_is_limited_answers_nothing(text: str) -> None:
    assert meant(text) == []


def test_a_yes_that_is_taken_back_is_none() -> None:
    assert "ACCEPT" not in meant("I accept. Or rather, I refuse.")
    assert meant("Peace? Yes.") == ["PEACE"]
    assert meant("Agreed. Thank you.") == ["ACCEPT"]
    assert meant("I refuse. However, let us talk.") == ["REJECT"]


@pytest.mark.parametrize(
    "when",
    ["in 1903", "in two turns", "in the coming year", "by 1905", "next spring", "next turn", "later", "in 1904",
     "from 1904 on", "only after you leave Munich", "after you leave Munich", "in the fall", "in a year",
     "two years from now", "within two turns", "in the next two turns", "in six years", "in half a year",
     "the year after", "next time", "in '03", "in 03", "in F1902", "in S1903M", "in F1902M", "this summer", "soon",
     "after they leave Munich", "following your retreat", "before 1904"],
)  # fmt: skip
def test_what_is_said_of_another_time_does_not_bind_now(when: str) -> None:
    for said in ("I will move from Marseilles to Burgundy", "Let us have peace", "Please hold in Ruhr"):
        assert meant(f"{said} {when}.") == []
        assert meant(f"{when[0].upper()}{when[1:]}, {said[0].lower()}{said[1:]}.") == []


@pytest.mark.parametrize(
    "when",
    ["in 1902", "this year", "this spring", "now", "until 1904", "until next year", "until the spring of 1904",
     "in S1902", "in S1902M", "in '02", "for two years", "for the next two turns", "after all"],
)  # fmt: skip
def test_what_is_said_of_this_time_binds(when: str) -> None:
    assert meant(f"Let us have peace {when}.") == ["PEACE"]


@pytest.mark.parametrize(
    "text",
    ["I will move to Burgundy to keep them out.", "I will move to Burgundy to hold the line.",
     "Please move to Munich to support Ruhr.",
     "Please move your army from Ruhr to Belgium with the support of Burgundy.",
     "I will order my army in Burgundy to move to Belgium to support you.",
     "I will order Burgundy to Belgium to support you.", "I will hold Burgundy with the support of Munich.",
     "Please hold in Munich with my support.", "I will stay in Burgundy in support of Munich."],
)  # fmt: skip
def test_an_order_is_no_other_one_because_of_its_purpose_or_of_help(text: str) -> None:
    assert meant(text) == []


def test_a_draw_is_one_of_the_game() -> None:
    assert meant("Let us draw in the Russians.") == []
    assert meant("Let us draw with Italy. Let us draw near. Let us draw by lot. Let us draw between the lines.") == []
    assert meant("Let us draw this game.") == ["DRAW"]
    assert meant("Let us draw.") == ["DRAW"]


@pytest.mark.parametrize(
    "part",
    ["A ", "->", "Italy: ", "in 1903 ", "until the ", "? yes. ", "from: ", "$1", "\n\n", "- ",
     "A MAR S A BUR, ", "\u2192", "until spring ", "half an ", "the king of Italy ", "? no. ", "'03 ", "well, "],
)  # fmt: skip
@pytest.mark.timeout(120)  # a tenth of a second; a pattern that searches too long would take minutes
def test_long_letters_are_read_to_the_end(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(understanding, "MOST_READ", 10_000)
    for each in understand(part * (10_000 // len(part)), HERE, "FRANCE", "GERMANY"):
        assert each.kind in ("ACCEPT", "REJECT", "PEACE", "DRAW")
