"""All words of prompts and worked solutions, for a word-level tokenizer of a small model.

Digits are words of their own: a number of any size is spelled by ten of them. ``join`` puts the digits of a number
together again, so ``join(split(text)) == text`` for every prompt and worked solution of this world.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from services.environments.word_problems.families import names
from services.environments.word_problems.families.registry import FAMILIES, follow_up_family
from services.environments.word_problems.instructions import INSTRUCTIONS
from services.environments.word_problems.presets import PRESETS
from services.environments.word_problems.problem import (
    ANSWER,
    INSTRUCTION,
    QUESTION,
    RESPONSE,
    THINK,
    WordProblem,
    completion_text,
)

# For Python's re and Hugging Face's tokenizers.Regex: each match is a word, other characters are dropped.
WORD_PATTERN = r"</?[a-z]+>|[A-Za-z]+|[0-9]|\n|[^\sA-Za-z0-9]"
_WORD = re.compile(WORD_PATTERN)
_SLOT = re.compile(r"\{[a-z]+\}")
_MARKS = (*"0123456789", *".,:?$%+-*/=", "\n")
_TAGS = tuple(f"<{end}{tag}>" for tag in (INSTRUCTION, QUESTION, THINK, RESPONSE, ANSWER) for end in ("", "/"))


@cache
def words() -> tuple[str, ...]:
    """Return all words, sorted: those of the families, follow-ups, presets and instructions, digits, marks and tags."""
    families = (*FAMILIES.values(), follow_up_family(Fraction(0)))
    texts = [text for family in families for part in family.wordings.values() for text in part]
    texts += [label for family in families for label in family.labels]
    texts += [*names.LISTED, *INSTRUCTIONS.values()]
    texts += [text for problem in PRESETS for text in (problem.question.text, completion_text(problem))]
    return tuple(sorted({word for text in texts for word in split(_SLOT.sub(" ", text))} | {*_MARKS, *_TAGS}))


def characters() -> str:
    """Return all characters of the words and the space, sorted."""
    return "".join(sorted({letter for word in words() for letter in word} | {" "}))


def can_write(problem: WordProblem) -> bool:
    """Return whether all words of a problem's question and solution are listed; those of GSM8K mostly are not."""
    listed = frozenset(words())
    return listed.issuperset(split(problem.question.text)) and listed.issuperset(split(completion_text(problem)))


def split(text: str) -> list[str]:
    """Return the words of a text."""
    return _WORD.findall(text)


def join(words: Sequence[str]) -> str:
    """Return the text of words: no space around tags and line ends, in numbers, after ``$`` or before ``.,:?%``."""
    pieces: list[str] = []
    for index, word in enumerate(words):
        before = words[index - 1] if index else "\n"
        is_decimal = before == "." and word.isdigit() and index > 1 and words[index - 2].isdigit()
        is_tight = before in ("\n", "$") or word in ("\n", ".", ",", ":", "?", "%") or is_decimal
        is_tight = is_tight or (before.isdigit() and word.isdigit()) or _is_tag(before) or _is_tag(word)
        pieces.append(word if is_tight else f" {word}")
    return "".join(pieces)


def _is_tag(word: str) -> bool:
    return len(word) > 2 and word[0] == "<" and word[-1] == ">"
