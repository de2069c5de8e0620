"""Helpers: the world of word problems under settings as a configuration has them."""

from __future__ import annotations

from typing import Any

from services.environments.word_problems.play.settings import WordProblemEvaluation, WordProblemSettings
from services.environments.word_problems.world import WordProblems

VARIANTS = ("step_by_step", "final_answer")


def word_problems(**game: Any) -> WordProblems:
    return WordProblems(WordProblemSettings(**{"variants": VARIANTS, **game}))


def evaluation(**keys: Any) -> WordProblemEvaluation:
    return WordProblemEvaluation(**{"problems": 6, "samples": 2, **keys})
