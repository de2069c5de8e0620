"""All families by name, and the one function that makes a problem of them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

from grpo_core.errors import one_line
from services.environments.word_problems.families import counting, measures, money, relations
from services.environments.word_problems.families.draws import Draws
from services.environments.word_problems.families.story import Family, Story
from services.environments.word_problems.problem import DIFFICULTIES, Question, Split, WordProblem, split_of

_ATTEMPTS = 1000  # one in ten problems is held out: that many never miss

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        family.name: family
        for family in (
            money.BUYING,
            money.UNIT_PRICES,
            money.MIXTURES,
            counting.SHARING,
            counting.REMAINDERS,
            counting.GAINS_AND_LOSSES,
            measures.DISTANCES,
            measures.RECTANGLES,
            measures.WORK_RATES,
            relations.AGES,
            relations.PERCENTAGES,
        )
    }
)


def generate(family: str, difficulty: int, seed: int) -> WordProblem:
    """Make the problem of a family, a difficulty (1 to 5) and a seed (any whole number); equal on every machine.

    Raises ValueError for an unknown family, naming the nearest, or another difficulty.
    """
    if family not in FAMILIES:
        near = difflib.get_close_matches(family[:60], FAMILIES, n=1, cutoff=0.0)[0]
        shown = one_line(repr(family), 80)
        raise ValueError(f"unknown family {shown}; did you mean {near!r}? Families are: {', '.join(FAMILIES)}")
    if difficulty not in DIFFICULTIES:
        raise ValueError(f"a difficulty is a whole number from 1 to 5, not {one_line(repr(difficulty), 80)}")
    return _told(FAMILIES[family], difficulty, seed)


def generate_in(split: Split, family: str, difficulty: int, seed: int) -> WordProblem:
    """Make a problem that ``split_of`` puts on one side, of the first seed from ``seed * 1000`` on that gives one.

    Its own ``seed`` makes it again with ``generate``. Errors as for ``generate``.
    """
    for attempt in range(_ATTEMPTS):
        problem = generate(family, difficulty, seed * _ATTEMPTS + attempt)
        if split_of(problem.question) == split:
            return problem
    raise ValueError(f"no problem of {family} at difficulty {difficulty} is {split}")


def follow_up(problem: WordProblem, seed: int) -> WordProblem:
    """Make a next question about a problem's answer, for a conversation of several turns.

    Its text says "your answer", never the answer itself. Difficulty is that of the problem, 1 where it is unknown.
    """

    return _told(follow_up_family(problem.answer), max(problem.difficulty, DIFFICULTIES[0]), seed)


def follow_up_family(answer: Fraction) -> Family:
    """Return the family of next questions about an answer, for ``follow_up``; it is not in ``FAMILIES``."""

    def tell(story: Story) -> None:
        part, sign, number = story.draws.one((("times", "*", story.draws.whole(2, 9)), ("more", "+", story.number())))
        story.tell(part, number=number)
        story.tell("ask")
        story.step("result", answer, sign, number)

    return Family(
        "follow_up",
        {
            "times": ("Now multiply your answer by {number}.", "Take {number} times your answer."),
            "more": ("Now add {number} to your answer.", "Then there are {number} more than in your answer."),
            "ask": ("What is the result?", "What number is that?"),
        },
        ("result",),
        tell,
    )


def _told(family: Family, difficulty: int, seed: int) -> WordProblem:
    story = Story(family, difficulty, Draws(f"word problem/{family.name}/{difficulty}/{seed}"))
    family.tell(story)
    return WordProblem(
        Question(" ".join(story.sentences)), tuple(story.lines), story.result, family.name, difficulty, seed
    )
