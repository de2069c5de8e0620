"""The components of a reward: each a pure function of a completion and its problem, from 0 to 1."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from types import MappingProxyType

from services.environments.word_problems.answers import READ_CHARACTERS, final_answer, same_number
from services.environments.word_problems.problem import RESPONSE, TAG_PATTERN, THINK, WordProblem, completion_text

Component = Callable[[str, WordProblem], float]

COMPARED_CHARACTERS = 1000  # of each text; the matcher's time grows with their product
PRINTABLE_ASCII = 95

_TAG = re.compile(TAG_PATTERN, re.IGNORECASE)
_FORM = (f"<{THINK}>", f"</{THINK}>", f"<{RESPONSE}>", f"</{RESPONSE}>")


def exact_number(completion: str, problem: WordProblem) -> float:
    """Return 1 if the final answer (see ``answers``) equals that of the problem, else 0."""
    return float(same_number(final_answer(completion), problem.answer))


def similarity(completion: str, problem: WordProblem) -> float:
    """Return how much of the worked solution the completion repeats: 2 M / T.

    M counts the characters in matching blocks, T those of both texts (Ratcliff and Obershelp 1988, by
    ``difflib.SequenceMatcher`` without its junk heuristic, which changes the ratio of texts above 200 characters). It
    differs from the longest common subsequence: the longest block is taken first, then the longest on each side of it.
    Only the first ``COMPARED_CHARACTERS`` of each text are compared, which takes up to a second.
    """
    reference = completion_text(problem)[:COMPARED_CHARACTERS]
    return SequenceMatcher(None, completion.strip()[:COMPARED_CHARACTERS], reference, autojunk=False).ratio()


def form(completion: str, problem: WordProblem) -> float:  # noqa: ARG001  (components have one signature)
    """Return 1 if the completion is a thought and a response in their tags, else 0.

    The four tags stand in order, each once and with text between; nothing stands outside, and no other tag inside. The
    engine has to keep the stop string in the text: without it, a completion was cut off.
    """
    text = completion[:READ_CHARACTERS].strip()
    tags = tuple(tag[0] for tag in _TAG.finditer(text))
    if tags != _FORM or len(completion) > READ_CHARACTERS:
        return 0.0
    before, thought, between, response, after = _TAG.split(text)
    return float(bool(thought.strip() and response.strip()) and not (before or between.strip() or after))


def unique_characters(completion: str, problem: WordProblem) -> float:  # noqa: ARG001
    """Return the number of different characters over 95, that of printable ASCII; at most 1.

    Kept as a demonstration of reward hacking: it asks nothing of the problem, so a policy learns to write out its
    alphabet while its exact answers fall. Never use it to train a policy that is to solve anything.
    """
    return min(1.0, len(set(completion)) / PRINTABLE_ASCII)


COMPONENTS: Mapping[str, Component] = MappingProxyType(
    {
        "exact_number": exact_number,
        "similarity": similarity,
        "form": form,
        "unique_characters": unique_characters,
    }
)
