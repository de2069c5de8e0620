"""Builds a problem from listed wordings: the sentences of its question and the lines of its solution."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from services.environments.word_problems.families.draws import Draws
from services.environments.word_problems.families.names import LISTED
from services.environments.word_problems.problem import number_text

Wordings = Mapping[str, tuple[str, ...]]  # part of a story -> its wordings, with {slots}
Number = int | Fraction

_LARGEST = (12, 20, 50, 200, 900)  # numbers of a story by difficulty
_OPERATIONS: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


@dataclass(frozen=True)
class Family:
    """A kind of problem: all its words, and the function that tells one."""

    name: str
    wordings: Wordings
    labels: tuple[str, ...]  # what the lines of its solutions are about
    tell: Callable[[Story], None]


class Story:
    """One problem while it is told. Every word comes from the family's wordings, its labels or ``names.LISTED``."""

    def __init__(self, family: Family, difficulty: int, draws: Draws) -> None:
        self.difficulty = difficulty
        self.draws = draws
        self.sentences: list[str] = []
        self.lines: list[str] = []
        self.result = Fraction(0)  # of the last line
        self._family = family

    def number(self, low: int = 2, share: float = 1.0) -> int:
        """Draw a whole number from ``low`` to the largest of this difficulty, times ``share``."""
        return self.draws.whole(low, max(low + 4, int(_LARGEST[self.difficulty - 1] * share)))

    def tell(self, part: str, /, **slots: Number | str) -> None:
        """Add one of the part's wordings to the question; numbers are at least 0, words are listed ones."""
        said = {}
        for name, value in slots.items():
            if isinstance(value, str):
                if value not in LISTED:
                    raise ValueError(f"{value!r} is not among the listed words")
                said[name] = value
            else:
                said[name] = number_text(Fraction(value))
        self.sentences.append(self.draws.one(self._family.wordings[part]).format(**said))

    def step(self, label: str, left: Number, sign: str, right: Number) -> Fraction:
        """Add the line ``label: left sign right = result`` and return the result.

        It is never negative, unless ``left`` is: the answer of a problem from a file, in a follow-up.
        """
        if label not in self._family.labels:
            raise ValueError(f"{label!r} is not among the labels of {self._family.name}")
        left, right = Fraction(left), Fraction(right)
        result = _OPERATIONS[sign](left, right)
        if result < 0 <= left:
            raise ValueError(f"{label} would be {result}")
        self.lines.append(f"{label}: {number_text(left)} {sign} {number_text(right)} = {number_text(result)}")
        self.result = result
        return result
