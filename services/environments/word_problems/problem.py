"""A word problem: what is asked, which prompts may show, and its solution and answer, which they may not."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from grpo_core.errors import EntenteError

DIFFICULTIES = (1, 2, 3, 4, 5)
UNKNOWN_DIFFICULTY = 0  # of problems from a file: GSM8K has no such column

# Tags of prompts and completions.
INSTRUCTION, QUESTION, THINK, RESPONSE, ANSWER = "instruction", "question", "think", "response", "answer"
TAG_PATTERN = rf"</?(?:{INSTRUCTION}|{QUESTION}|{THINK}|{RESPONSE}|{ANSWER})>"
_TAG = re.compile(TAG_PATTERN, re.IGNORECASE)

LONGEST_QUESTION = 10_000  # characters; the longest of GSM8K has 985
HELD_OUT_SHARE = 0.1

Split = Literal["train", "held_out"]


class ProblemFileError(EntenteError, ValueError):
    """A file of problems or rows cannot be used; the message is one line with the file, the line and the reason."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a prompt may show of a problem: its text alone. No function that builds a prompt takes anything else.

    Raises ValueError for a text that is empty, longer than ``LONGEST_QUESTION`` characters, or that holds one of the
    tags, with which it could pass for another part of the prompt.
    """

    text: str

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError("the question is empty")
        if len(self.text) > LONGEST_QUESTION:
            raise ValueError(f"the question has {len(self.text)} characters, and at most {LONGEST_QUESTION} are read")
        if tag := _TAG.search(self.text):
            raise ValueError(f"the question holds the tag {tag[0]}")


@dataclass(frozen=True, slots=True)
class WordProblem:
    """A question with its worked solution and final answer.

    The answer is a ``Fraction``: it holds every decimal and every quotient exactly, so that 0.75 and 3/4 are equal and
    a third is no rounded number. ``Decimal`` cannot hold a third.
    """

    question: Question
    solution: tuple[str, ...]  # lines; those of the families end in an equation, such as "cost: 3 * 4 = 12"
    answer: Fraction
    family: str
    difficulty: int  # one of DIFFICULTIES, or UNKNOWN_DIFFICULTY
    seed: int  # of the generator; the row's number for problems from a file


def split_of(question: Question, held_out_share: float = HELD_OUT_SHARE) -> Split:
    """Return where a question belongs, by the hash of its text alone.

    Equal texts always fall on the same side, whatever made them, so no held-out question is ever trained.
    ``held_out_share`` from 0 to 1 is the expected share. Case and spacing do not count.
    """
    if not 0 <= held_out_share <= 1:
        raise ValueError(f"a share is from 0 to 1, not {held_out_share}")
    text = " ".join(question.text.casefold().split())
    place = int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    return "held_out" if place < held_out_share * 2**64 else "train"


def number_text(number: Fraction) -> str:
    """Write a number exactly: whole (12), decimal where that ends (2.5), else as a fraction (1/3)."""
    if number.denominator == 1:
        return str(number.numerator)
    rest, twos, fives = number.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        return f"{number.numerator}/{number.denominator}"
    places = max(twos, fives)
    digits = str(abs(number.numerator) * 10**places // number.denominator).rjust(places + 1, "0")
    return f"{'-' * (number < 0)}{digits[:-places]}.{digits[-places:]}"


def answer_text(problem: WordProblem) -> str:
    """Return a completion without any working: the answer in its tags."""
    return f"<{RESPONSE}>{number_text(problem.answer)}</{RESPONSE}>"


def completion_text(problem: WordProblem) -> str:
    """Return the completion that a model can imitate: solution and answer in their tags, ``</response>`` last."""
    thought = "\n".join(problem.solution)
    return f"<{THINK}>\n{thought}\n</{THINK}>\n{answer_text(problem)}"
