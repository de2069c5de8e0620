"""pass@k and maj@k against brute-force enumeration, exact match and similarity."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.environments.word_problems.presets import PRESETS
from services.environments.word_problems.problem import completion_text
from services.environments.word_problems.scores import (
    exact_match,
    maj_at_k,
    majority,
    mean_maj_at_k,
    pass_at_k,
    similarity,
)

TRUTH = Fraction(1)
ANSWERS = st.lists(st.sampled_from([TRUTH, Fraction(2), Fraction(3), Fraction(1, 3), None]), min_size=1, max_size=9)


def enumerated_maj(answers: list[Fraction | None], k: int) -> float:
    wins = Fraction(0)
    subsets = list(combinations(answers, k))
    for subset in subsets:
        votes = [answer for answer in subset if answer is not None]
        if votes:
            most = max(votes.count(answer) for answer in votes)
            tied = {answer for answer in votes if votes.count(answer) == most}
            wins += Fraction(TRUTH in tied, len(tied))
    return float(wins / len(subsets))


@given(ANSWERS)
def test_maj_at_k_is_the_mean_over_all_subsets(answers: list[Fraction | None]) -> None:
    for k in range(1, len(answers) + 1):
        assert maj_at_k(answers, TRUTH, k) == enumerated_maj(answers, k)


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_pass_at_k_is_the_share_of_subsets_with_a_right_one(counts: tuple[int, int]) -> None:
    completions, right = counts
    outcomes = [True] * right + [False] * (completions - right)
    for k in range(1, completions + 1):
        subsets = list(combinations(outcomes, k))
        assert pass_at_k(completions, right, k) == float(Fraction(sum(map(any, subsets)), len(subsets)))


def test_large_numbers_of_completions_are_exact() -> None:
    assert pass_at_k(200, 1, 100) == 0.5
    answers = [TRUTH] * 60 + [Fraction(number) for number in range(2, 20) for _ in range(7)] + [None] * 14
    assert maj_at_k(answers, TRUTH, 1) == 60 / 200
    assert maj_at_k(answers, TRUTH, 64) > 0.999


def test_ties_and_silence_are_defined() -> None:
    two = [TRUTH, Fraction(2)]
    assert maj_at_k(two, TRUTH, 2) == 0.5
    assert maj_at_k([TRUTH, Fraction(2), Fraction(3)], TRUTH, 3) == pytest.approx(1 / 3)
    assert maj_at_k([None, None], TRUTH, 2) == 0
    assert maj_at_k([None, None, TRUTH], TRUTH, 3) == 1
    assert maj_at_k([Fraction(2)], TRUTH, 1) == 0
    assert majority(two) == two
    assert majority([Fraction(2), TRUTH, Fraction(2), None, None, None]) == [2]
    assert majority([None]) == majority([]) == []


@pytest.mark.parametrize(("completions", "right", "k"), [(3, 1, 0), (3, 1, 4), (3, 4, 1), (3, -1, 1), (0, 0, 1)])
def test_what_is_not_defined_is_refused(completions: int, right: int, k: int) -> None:
    with pytest.raises(ValueError, match="not defined"):
        pass_at_k(completions, right, k)
    if 0 <= right <= completions:
        with pytest.raises(ValueError, match="not defined"):
            maj_at_k([TRUTH] * completions, TRUTH, k)


def test_scores_of_texts() -> None:
    right = [completion_text(problem) for problem in PRESETS]
    assert exact_match(right, PRESETS) == similarity(right, PRESETS) == 1
    half = [text if index % 2 else "no answer" for index, text in enumerate(right)]
    assert exact_match(half, PRESETS) == 0.5
    assert 0.5 < similarity(half, PRESETS) < 1
    votes = [[text, text, "#### 0"] for text in right]
    assert mean_maj_at_k(votes, PRESETS, 3) == 1
    assert mean_maj_at_k(votes, PRESETS, 1) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="nothing to score"):
        exact_match([], [])
    with pytest.raises(ValueError, match="argument"):
        similarity(right[:3], PRESETS)
