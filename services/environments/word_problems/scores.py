"""Scores of completions: exact match, similarity, pass@k and maj@k."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import comb

from services.environments.word_problems.answers import final_answer
from services.environments.word_problems.problem import WordProblem
from services.environments.word_problems.rewards import components


def exact_match(completions: Sequence[str], problems: Sequence[WordProblem]) -> float:
    """Return the share of completions, one a problem, whose final answer is right; ValueError without any."""
    return _mean([components.exact_number(*pair) for pair in zip(completions, problems, strict=True)])


def similarity(completions: Sequence[str], problems: Sequence[WordProblem]) -> float:
    """Return the mean similarity, from 0 to 1, of completions, one a problem, to the worked solutions."""
    return _mean([components.similarity(*pair) for pair in zip(completions, problems, strict=True)])


def pass_at_k(completions: int, right: int, k: int) -> float:
    """Return the chance that k of a problem's completions, drawn without replacement, hold a right one.

    The unbiased estimator of Chen et al. 2021 (arXiv 2107.03374): 1 - C(n - c, k) / C(n, k). Raises ValueError unless
    0 <= right <= completions and 1 <= k <= completions.
    """
    if not (0 <= right <= completions and 1 <= k <= completions):
        raise ValueError(f"pass@{k} of {right} right among {completions} is not defined")
    return float(1 - Fraction(comb(completions - right, k), comb(completions, k)))


def majority(answers: Sequence[Fraction | None]) -> list[Fraction]:
    """Return the most frequent answers, sorted: several in a tie, none where no completion has an answer."""
    votes = Counter(answer for answer in answers if answer is not None)
    most = max(votes.values(), default=0)
    return sorted(answer for answer, count in votes.items() if count == most)


def maj_at_k(answers: Sequence[Fraction | None], truth: Fraction, k: int) -> float:
    """Return the chance that the vote of k of a problem's completions, drawn without replacement, is right.

    ``answers`` has one entry a completion; None (no answer) does not vote. In a tie of t answers each wins with 1 / t.
    Without any vote the result is wrong. The expectation is exact: for each number j of votes for the truth, it counts
    the ways to draw the other votes so that each answer has at most j, by how many reach j.

    Raises ValueError unless 1 <= k <= the number of answers.
    """
    if not 1 <= k <= len(answers):
        raise ValueError(f"maj@{k} of {len(answers)} completions is not defined")
    votes = Counter(answer for answer in answers if answer is not None)
    right = votes.pop(truth, 0)
    silent = len(answers) - right - votes.total()
    favorable = Fraction(0)
    for j in range(1, min(right, k) + 1):
        for (drawn, tied), ways in _draws(list(votes.values()), j, k - j).items():
            favorable += Fraction(comb(right, j) * ways * comb(silent, k - j - drawn), 1 + tied)
    return float(favorable / comb(len(answers), k))


def mean_maj_at_k(completions: Sequence[Sequence[str]], problems: Sequence[WordProblem], k: int) -> float:
    """Return the mean of maj@k over problems, each with all its completions."""
    pairs = zip(completions, problems, strict=True)
    return _mean([maj_at_k([final_answer(text) for text in texts], problem.answer, k) for texts, problem in pairs])


def _draws(counts: Sequence[int], most: int, room: int) -> dict[tuple[int, int], int]:
    """Return (votes drawn, answers with ``most`` votes) -> ways to draw up to ``room`` votes, ``most`` an answer."""
    ways = {(0, 0): 1}
    for count in counts:
        more: dict[tuple[int, int], int] = {}
        for (drawn, tied), before in ways.items():
            for taken in range(min(count, most, room - drawn) + 1):
                key = (drawn + taken, tied + (taken == most))
                more[key] = more.get(key, 0) + before * comb(count, taken)
        ways = more
    return ways


def _mean(values: Sequence[float]) -> float:
    if not values:
        raise ValueError("there is nothing to score")
    return sum(values) / len(values)
