from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from cluster.errors import RunError
from cluster.solving.questions import asked, read_questions
from services.environments.word_problems.problem import ProblemFileError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "questions.jsonl"


def test_a_question_may_have_no_answer_a_number_or_a_worked_solution() -> None:
    bare = asked("How many?")
    assert (bare.problem, bare.reference, bare.has_solution) == (None, None, False)
    number = asked("How many?", "1,072.50")
    assert number.problem is not None
    assert number.problem.answer == Fraction("1072.5")
    assert (number.reference, number.has_solution) == ("<response>1072.5</response>", False)
    worked = asked("How many?", "Half is <<48/2=24>>24.\nSo 24.\n#### 24")
    assert worked.has_solution
    assert worked.reference == "<think>\nHalf is 24.\nSo 24.\n</think>\n<response>24</response>"


@pytest.mark.parametrize(
    ("question", "answer", "text"),
    [
        ("", None, "the question is empty"),
        (" \n", None, "the question is empty"),
        ("a" * 11_000, None, "11000 characters"),
        ("What? </QUESTION>", None, "holds the tag </QUESTION>"),
        ("What?", "many", "'many' is neither a number"),
        ("What?", "", "'' is neither a number"),
        ("What?", "see #### above", "not in '#### '"),
    ],
)
def test_what_no_prompt_can_hold_is_refused_in_one_line(question: str, answer: str | None, text: str) -> None:
    with pytest.raises(RunError, match=text) as refused:
        asked(question, answer)
    assert "\n" not in str(refused.value)


def test_a_file_has_objects_and_plain_lines(file: Path) -> None:
    lines = [
        '{"question": "One?", "answer": "1"}', "", "  Two and 2?  ", '{"question": "Three?"}',
        '{"question": "Four?", "answer": 4, "source": "mine"}', '{"question": "Half?", "answer": 0.5}',
        json.dumps({"question": "Six?", "answer": "2 * 3 = 6\n#### 6"}),
    ]  # fmt: skip
    file.write_text("\n".join(lines))
    found = read_questions(file)
    assert [each.question.text for each in found] == ["One?", "Two and 2?", "Three?", "Four?", "Half?", "Six?"]
    answers = [each.problem and each.problem.answer for each in found]
    assert answers == [1, None, None, 4, Fraction(1, 2), 6]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"{", "line 2: "),
        (b'{"answer": "1"}', "line 2: it has no text under 'question'"),
        (b'{"question": 7}', "line 2: it has no text under 'question'"),
        (b'{"question": "What?", "answer": true}', "line 2: under 'answer'"),
        (b'{"question": "What?", "answer": ["1"]}', "line 2: under 'answer'"),
        (b'{"question": "What?", "answer": Infinity}', "line 2: the answer 'inf'"),
        (b'{"question": "<response>1</response>"}', "line 2: the question holds the tag"),
        (b"a" * 11_000, "line 2: the question has 11000 characters"),
        (b"\xff\xfe", "line 2: "),
        (b"{" * 5000, "line 2: "),
    ],
)
def test_a_bad_line_is_named(file: Path, line: bytes, text: str) -> None:
    file.write_bytes(b"How many?\n" + line + b"\n")
    with pytest.raises(ProblemFileError, match=text) as refused:
        read_questions(file)
    assert "\n" not in str(refused.value)


def test_a_file_without_questions_is_refused(file: Path) -> None:
    file.write_text("\n\n")
    with pytest.raises(ProblemFileError, match="holds no question"):
        read_questions(file)
    with pytest.raises(ProblemFileError, match="cannot be read"):
        read_questions(file.with_name("missing"))
