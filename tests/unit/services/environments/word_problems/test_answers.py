"""The final answer of a completion: its marks, the forms of numbers, and what is no answer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.environments.word_problems.answers import MOST_DIGITS, READ_CHARACTERS, final_answer, same_number
from services.environments.word_problems.files.gsm8k import TRAIN_ROWS, read_gsm8k
from tests.paths import SHARED_DATA

GSM8K = Path(os.environ.get("ENTENTE_GSM8K", SHARED_DATA / "gsm8k" / "train.jsonl"))
needs_gsm8k = pytest.mark.skipif(
    not GSM8K.exists(), reason="GSM8K (../shared/data/gsm8k/train.jsonl, or ENTENTE_GSM8K) is absent"
)

MARKS: dict[str, Callable[[str], str]] = {
    "####": "#### {}".format,
    "response": "<response>{}</response>".format,
    "cut off": "<response>{}".format,
    "answer tag": "<ANSWER>{}</ANSWER>".format,
    "last line": "so we find\nThe answer is {}".format,
    "colon": "Final answer: {}".format,
    "equation": "so x = {}".format,
    "alone": "{}".format,
}
NUMBERS = {
    "72": "72",
    "1,234": "1234",
    "1,234,567.89": "123456789/100",
    "0": "0",
    "007": "7",
    "-7": "-7",
    "−7": "-7",
    "–7": "-7",
    "$18": "18",
    "$1,080": "1080",
    "-$5": "-5",
    "$-5": "-5",
    "€3.50": "7/2",
    "2.50": "5/2",
    ".5": "1/2",
    "3/4": "3/4",
    "-3/4": "-3/4",
    "1 1/2": "3/2",
    "-1 1/2": "-3/2",
    "50%": "50",
    "72.": "72",
    "72.00": "72",
    "**72**": "72",
    "(72)": "72",
}


@pytest.mark.parametrize("mark", MARKS)
def test_every_form_of_a_number_is_read_under_every_mark(mark: str) -> None:
    for number, value in NUMBERS.items():
        assert final_answer(MARKS[mark](number)) == Fraction(value), number


# Texts with a defined answer: text -> answer.
READ = {
    "240 / 12 = 20 </response>": "20",
    "240 / 12 = 20": "20",
    "The answer is 72": "72",
    "The answer is: **$72**.": "72",
    "#### 5\n#### 6": "6",
    "<response>5</response><response>6</response>": "6",
    "<response>5</response> or rather <answer>6</answer>": "6",
    "<answer>6</answer> ... #### 5": "5",
    "<response><answer>5</answer></response>": "5",
    "<response>1 <answer>5</answer> 9</response>": "5",
    "<response>#### 5</response>": "5",
    "<response>5</response> I counted 3 times": "5",
    "<response>5</response><response></response>": "5",
    "<response>5</response><response>none": "5",
    "<response>72 clips in all.\nGood luck!</response>": "72",
    "<think>1 + 1 = 2</think><response>3</response>": "3",
    "#### Step 2: add\nThe answer is 9": "9",
    "#### 20 apples in 3 boxes": "20",
    "####20": "20",
    "#### $20": "20",
    "##### 20": "20",
    "#### **20**": "20",
    "<response>48 + 24 = 72</response>": "72",
    "<response>10 - 5</response>": "5",
    "<response>10 -5</response>": "5",
    "<response>3-5</response>": "5",
    "<response>it is -5</response>": "-5",
    "<response>- 5</response>": "5",
    "<response>model-5</response>": "5",
    "<response>Rs50</response>": "50",
    "<response>USD 50</response>": "50",
    "<response>50 USD</response>": "50",
    "<response>72km</response>": "72",
    "<response>25 m²</response>": "25",
    "<response>x2 = 7</response>": "7",
    "<response>7 x2</response>": "7",
    "<response>\t\n 7 \n</response>": "7",
    "<response>7</respons": "7",
    "共25元 #### 25": "25",
    "<response>共25元</response>": "25",
    "Answer: 1\nanswer = 2": "2",
    "72\n\n": "72",
    "= 72": "72",
    "25/2 \n#### 25/2": "25/2",
    "<response>0.333</response>": "333/1000",
    "x" * (READ_CHARACTERS * 2) + "#### 5": "5",
}
# Texts without an answer, and the reason.
NOT_READ = {
    "": "empty",
    " \n\t": "empty",
    "72 clips were sold in May": "not marked",
    "Natalia sold 48 clips in April": "not marked",
    "How many clips did she sell in 2 months? 72 in all": "not marked",
    "####": "no number",
    "#### n": "no number",
    "<response></response>": "no number",
    "<response>seventy-two</response>": "no number",
    "</response>": "no number",
    "72</question>": "no mark of an answer",
    "<response>240/12</response>": "an unfinished division",
    "<response>6/8</response>": "not in lowest terms",
    "<response>5/1</response>": "not in lowest terms",
    "<response>5/0</response>": "no number",
    "<response>0/0</response>": "no number",
    "<response>1e5</response>": "an exponent",
    "<response>1E+5</response>": "an exponent",
    "<response>1e999999999</response>": "an exponent",
    "<response>1,2,3</response>": "misplaced commas",
    "<response>12,34</response>": "misplaced commas",
    "<response>1,2345</response>": "misplaced commas",
    "<response>1.2.3</response>": "a version",
    "<response>1/2/2020</response>": "a date",
    "<response>1.5/2</response>": "a quotient",
    "<response>inf</response>": "no number",
    "<response>NaN</response>": "no number",
    "<response>x2</response>": "part of a word",
    "<response>x1.5</response>": "part of a word",
    "<response>5</response><response>٣</response>": "the last answer has other digits",
    "<response>٣</response>": "other digits",
    "<response>1２</response>": "other digits",
    "<response>1２ or 12</response>": "other digits",
    "<response>½</response>": "other digits",
    "<response>3½</response>": "other digits",
    "<response>Ⅳ 4</response>": "other digits",
    "<response>\u202e27</response>": "reversed",
    "<response>7\u200b2</response>": "an invisible character",
    "<response>\u206627\u2069</response>": "isolated",
    "<response>7\u00ad2</response>": "a soft hyphen",
    "#### 7\u200f2": "an invisible character",
    "The answer is \u202e27": "reversed",
    "#### ٣": "other digits",
    "#### " + "9" * 10_000: "too many digits",
    "<response>" + "9" * 10_000 + "</response>": "too many digits",
    "<response>" + "9" * (MOST_DIGITS + 1): "too many digits",
    "<response>1." + "0" * 10_000 + "</response>": "too many digits",
    "#### 5" + "x" * READ_CHARACTERS: "before the part that is read",
}


@pytest.mark.parametrize("text", READ, ids=lambda text: text[:40])
def test_the_last_marked_answer_is_read(text: str) -> None:
    assert final_answer(text) == Fraction(READ[text])


@pytest.mark.parametrize("text", NOT_READ, ids=lambda text: text[:40])
def test_what_is_no_answer_is_none(text: str) -> None:
    assert final_answer(text) is None, NOT_READ[text]


def test_a_thousand_digits_are_still_read() -> None:
    assert final_answer("#### " + "9" * MOST_DIGITS) == 10**MOST_DIGITS - 1


@given(st.integers(-(10**30), 10**30))
def test_whole_numbers_with_commas_are_read(number: int) -> None:
    assert final_answer(f"so it is\n#### {number:,}") == number
    assert final_answer(f"<response>{number:,} clips.</response>") == number


@given(st.text())
def test_any_text_has_a_result(text: str) -> None:
    for whole in (text, f"<response>{text}</response>", f"#### {text}", f"answer is {text}"):
        assert final_answer(whole) is None or isinstance(final_answer(whole), Fraction)


@given(st.text(alphabet="0123456789.,/- eE$%=#<>\n\u202e２"))
def test_any_text_of_numbers_and_marks_has_a_result(text: str) -> None:
    for whole in (text, f"<response>{text}</response>", f"#### {text}", f"answer is {text}"):
        assert final_answer(whole) is None or isinstance(final_answer(whole), Fraction)


def test_only_equal_numbers_are_the_same() -> None:
    assert same_number(Fraction(1, 2), final_answer("#### 0.5"))
    assert not same_number(Fraction(1, 3), final_answer("#### 0.333333333"))
    assert not same_number(None, None)
    assert not same_number(None, Fraction(0))
    assert not same_number(Fraction(0), None)


def test_an_unmarked_echo_of_a_question_holds_no_answer() -> None:
    question = "Tom has 5 apples and 7 pears. He gives 2 away. How many of his 12 fruits are left, 10 or 12?"
    assert final_answer(question) is None
    assert final_answer(f"{question}</response>") is None
    assert final_answer(f"#### {question}") is None
    assert final_answer(f"Answer: {question}") is None


@needs_gsm8k
def test_every_answer_of_gsm8k_is_read() -> None:
    rows = [json.loads(line) for line in GSM8K.read_text(encoding="utf-8").splitlines()]
    written = [row["answer"].rpartition("#### ")[2].replace(",", "") for row in rows]
    right = sum(final_answer(row["answer"]) == Fraction(number) for row, number in zip(rows, written, strict=True))
    assert right == len(rows) == TRAIN_ROWS


@needs_gsm8k
def test_an_echo_of_gsm8k_scores_no_more_than_chance() -> None:
    problems = read_gsm8k(GSM8K, TRAIN_ROWS)
    for echo in ("{}", "{}</response>", "#### {}", "Answer: {}", "{0}\n{0}"):
        texts = [echo.format(problem.question.text) for problem in problems]
        assert not any(same_number(final_answer(text), each.answer) for text, each in zip(texts, problems, strict=True))
    tagged = [f"<response>{problem.question.text}</response>" for problem in problems]
    right = sum(same_number(final_answer(text), each.answer) for text, each in zip(tagged, problems, strict=True))
    chance = 0.0  # that a number drawn from the question is the answer
    for problem in problems:
        numbers = re.findall(r"[0-9][0-9,]*(?:\.[0-9]+)?", problem.question.text)
        same = [Fraction(number.replace(",", "")) == problem.answer for number in numbers]
        chance += sum(same) / max(1, len(same))
    assert 0.01 < right / len(problems) <= chance / len(problems) < 0.02
