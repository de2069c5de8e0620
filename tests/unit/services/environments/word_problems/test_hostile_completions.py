"""Two hundred hostile completions: each has a defined answer, in a time that grows with its length alone."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction

import pytest

from services.environments.word_problems.answers import final_answer
from services.environments.word_problems.presets import PRESETS
from services.environments.word_problems.rewards.components import COMPONENTS

LONG, MEGABYTE = 100_000, 1_000_000  # characters; what is quadratic takes minutes for either
# Repeated to a long text and put under each mark: text -> how it reads between tags.
PIECES: dict[str, str | None] = {
    "9": None,  # too many digits
    "1 ": "1",
    "1,": None,
    ",111": None,
    "1.": None,
    ".": None,
    "/": None,
    "1/": None,
    "1 1/": "1",
    "1/3 ": "1/3",
    "-": None,
    "-1 ": "1",  # each but the first is subtracted
    "$": None,
    " ": None,
    "\n": None,
    "\t1\n": "1",
    "#": None,
    "#### ": None,
    "####1": "1",
    "<": None,
    "<response>": None,
    "</response>": None,
    "<response>1": "1",
    "<answer></answer>": None,
    "<response></answer>": None,
    "answer ": None,
    "answer is ": None,
    "answer is 1 ": "1",
    "= ": None,
    "=1": "1",
    "1e": None,
    "e1": None,
    "1e1 ": None,
    "\u202e1 ": None,
    "٣": None,
    "１": None,
    "é": None,
    "x²": None,
    "\x00": None,
    "\x1b[2J1 ": None,
}
WRAPPINGS = {"alone": "{}", "tags": "<response>{}</response>", "mark": "#### {}", "said": "The answer is {}"}


def timed_answer(text: str) -> Fraction | None:
    start = time.process_time()
    answer = final_answer(text)
    assert time.process_time() - start < 3  # seconds; a tenth of one in truth
    assert answer is None or isinstance(answer, Fraction)
    return answer


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_text_is_read_in_linear_time(piece: str) -> None:
    answers = {name: timed_answer(text.format(piece * (LONG // len(piece)))) for name, text in WRAPPINGS.items()}
    expected = PIECES[piece]
    assert answers["tags"] == (None if expected is None else Fraction(expected))


@pytest.mark.parametrize("piece", ["9", "1 ", "1,", "-", " ", "#", "<response>1", "answer is "])
def test_a_megabyte_is_read_in_linear_time(piece: str) -> None:
    for wrapping in WRAPPINGS.values():
        timed_answer(wrapping.format(piece * (MEGABYTE // len(piece))))


TRICKS: dict[str, str | None] = {
    "<response>72": "72",
    "<response>72</response>": "72",
    "</response>72": None,
    "<RESPONSE>72</RESPONSE>": "72",
    "< response>72</response>": None,
    "<response >72</response>": None,
    "&lt;response&gt;72&lt;/response&gt;": None,
    "<response>72 73</response>": "73",
    "<response>71 or 72</response>": "72",
    "<response>0 1 2 3 4 5 6 7 8 9</response>": "9",
    "<response>72<response>": "72",
    "<response>72<response>73": "73",
    "<response>72</response><response>x</response>": "72",
    "72" + "<response>" * 3: "72",
    "<answer>72<response>": "72",
    "#### 72 ####": "72",
    "#### 72\n####": "72",
    "#### 72\n#### x": "72",
    "#### ####72": "72",
    "#### -72": "-72",
    "#### --72": "-72",
    "#### +72": "72",
    "#### 72-": "72",
    "#### 7 2": "7",
    "#### 7_2": "7",
    "#### 0x48": "0",
    "#### 72!": "72",
    "#### '72'": "72",
    "#### [72]": "72",
    "#### {72}": "72",
    "#### \\boxed{72}": None,
    "\\boxed{72}": None,
    "# 72": None,
    "### 72": None,
    "answer 72": "72",
    "answers 72": None,
    "the answer is not 72": None,
    "is 72 the answer?": None,
    "answer is is 72": None,
    "The answer is 72 and 73": "72",
    "The answer is 71. The answer is 72.": "72",
    "x = y = 72": "72",
    "72 = x": None,
    "72 == 72": "72",
    "72 != 71": "71",
    "true": None,
    "None": None,
    "__import__('os')": None,
    "{0}": "0",
    "%d": None,
    "\ud800 #### 72": "72",
    "<response>\ud80072</response>": "72",
    "<response>72\ufeff</response>": None,
    "<response>72\x00</response>": None,
    "<response>72\x1b[2J</response>": None,
    "<response>七十二</response>": None,
    "<response>72'000</response>": "0",
    "<response>72 000</response>": "0",
    "<response>72,000</response>": "72000",
    "<response>72.000,5</response>": None,
}


def test_there_are_two_hundred() -> None:
    assert len(PIECES) * len(WRAPPINGS) + len(TRICKS) >= 200


@pytest.mark.parametrize("text", TRICKS, ids=lambda text: ascii(text)[:40])
def test_a_trick_has_a_defined_answer(text: str) -> None:
    expected = TRICKS[text]
    assert final_answer(text) == (None if expected is None else Fraction(expected))


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_component_stays_from_zero_to_one(name: str) -> None:
    for text in (*TRICKS, *(piece * (2_000 // len(piece)) for piece in PIECES)):
        assert 0 <= COMPONENTS[name](text, PRESETS[0]) <= 1, text[:80]


@pytest.mark.parametrize("piece", ["a", "ab", "<think>\n", "48 / 2 = 24\n"])
def test_similarity_of_a_megabyte_takes_bounded_time(piece: str) -> None:
    long = replace(PRESETS[0], solution=(piece * 5000,))
    start = time.process_time()
    assert 0 <= COMPONENTS["similarity"](piece * (MEGABYTE // len(piece)), long) <= 1
    assert time.process_time() - start < 3
