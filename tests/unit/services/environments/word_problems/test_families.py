"""Every made problem: its arithmetic is right, its answer is that of its last line, and its numbers make sense."""

from __future__ import annotations

import hashlib
import re
from fractions import Fraction
from itertools import pairwise, product
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.environments.word_problems.answers import final_answer
from services.environments.word_problems.families.draws import Draws
from services.environments.word_problems.families.registry import FAMILIES, follow_up, generate, generate_in
from services.environments.word_problems.families.story import Family, Story
from services.environments.word_problems.problem import (
    DIFFICULTIES,
    Question,
    Split,
    WordProblem,
    completion_text,
    split_of,
)

LINE = re.compile(r"[a-z ]+: ([0-9./]+) ([-+*/]) ([0-9./]+) = ([0-9./]+)")
SEEDS = range(60)
EVERY = [(family, difficulty) for family in FAMILIES for difficulty in DIFFICULTIES]
MAY_HAVE_DECIMALS = {"mixtures"}  # prices; a half of a thing or of a person is absurd


def result_of(line: str) -> Fraction:
    """Evaluate a line's left side, and check it against its right side."""
    found = LINE.fullmatch(line)
    assert found, line
    left, sign, right, result = found.groups()
    one, other = Fraction(left), Fraction(right)
    value = {"+": one + other, "-": one - other, "*": one * other, "/": one / other if other else None}[sign]
    assert value == Fraction(result), line
    return Fraction(result)


def results_of(problem: WordProblem) -> list[Fraction]:
    return [result_of(line) for line in problem.solution]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_arithmetic_is_right_and_the_last_line_is_the_answer(family: str) -> None:
    for difficulty, seed in product(DIFFICULTIES, SEEDS):
        problem = generate(family, difficulty, seed)
        results = results_of(problem)
        assert results[-1] == problem.answer
        assert (problem.family, problem.difficulty, problem.seed) == (family, difficulty, seed)
        assert problem.question.text.endswith("?")
        assert final_answer(completion_text(problem)) == problem.answer


@pytest.mark.parametrize("family", FAMILIES)
def test_numbers_are_positive_whole_and_of_a_sensible_size(family: str) -> None:
    for difficulty, seed in product(DIFFICULTIES, SEEDS):
        problem = generate(family, difficulty, seed)
        results = results_of(problem)
        assert min(results) > 0
        assert max(results) < 10_000_000
        told = [Fraction(number.rstrip(".")) for number in re.findall(r"[0-9][0-9.]*", problem.question.text)]
        assert min(told) > 0
        if family not in MAY_HAVE_DECIMALS:
            assert all(number.denominator == 1 for number in (*results, *told)), problem
        else:
            assert all(number * 100 == int(number * 100) for number in results), problem
        if family == "ages":
            assert all(age < 100 for line, age in zip(problem.solution, results, strict=True) if "sum" not in line)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_higher_difficulty_has_more_steps_or_larger_numbers(family: str) -> None:
    made = {difficulty: [generate(family, difficulty, seed) for seed in SEEDS] for difficulty in DIFFICULTIES}
    steps = [mean(len(problem.solution) for problem in made[difficulty]) for difficulty in DIFFICULTIES]
    digits = [
        mean(sum(letter.isdigit() for line in problem.solution for letter in line) for problem in made[difficulty])
        for difficulty in DIFFICULTIES
    ]
    assert all(easier <= harder for easier, harder in pairwise(steps))
    assert all(easier < harder for easier, harder in pairwise(digits))


@given(st.sampled_from(EVERY), st.integers(-(2**70), 2**70))
def test_any_seed_makes_a_right_problem(kind: tuple[str, int], seed: int) -> None:
    problem = generate(*kind, seed)
    assert results_of(problem)[-1] == problem.answer >= 0
    assert generate(*kind, seed) == problem


def test_problems_are_the_same_on_every_machine() -> None:
    texts = "\n".join(
        f"{problem.question.text}\n{completion_text(problem)}"
        for problem in (generate(*kind, seed) for kind in EVERY for seed in range(5))
    )
    assert hashlib.sha256(texts.encode()).hexdigest()[:16] == "61a84ef64b2e89be"


def test_problems_repeat_no_more_than_chance() -> None:
    for family, difficulty in EVERY:
        texts = {generate(family, difficulty, seed).question.text for seed in range(100)}
        assert len(texts) >= (90 if difficulty == 1 else 97), (family, difficulty, len(texts))


def test_wordings_names_and_things_vary() -> None:
    for family, kind in FAMILIES.items():
        assert all(len(wordings) >= 2 for wordings in kind.wordings.values()), family
        assert len(kind.wordings) == len(set(kind.wordings))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_held_out_problems_are_other_texts_than_training_problems(share: float) -> None:
    questions = [generate(*kind, seed).question for kind in EVERY for seed in range(20)]
    held_out = {question.text for question in questions if split_of(question, share) == "held_out"}
    trained = {question.text for question in questions if split_of(question, share) == "train"}
    assert not held_out & trained
    assert len(held_out) / len(held_out | trained) == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize("split", ["train", "held_out"])
def test_problems_of_one_side_of_the_split_can_be_made(split: Split) -> None:
    for family, difficulty in EVERY:
        problems = [generate_in(split, family, difficulty, seed) for seed in range(3)]
        assert {split_of(problem.question) for problem in problems} == {split}
        assert problems[2] == generate(family, difficulty, problems[2].seed)
        assert len({problem.question for problem in problems}) == 3


def test_the_split_looks_at_the_text_alone() -> None:
    questions = [generate("ages", 1, seed).question for seed in range(20)]
    for question in questions:
        spaced = Question(f"  {question.text.upper()}\n")
        assert split_of(question, 0.5) == split_of(spaced, 0.5)
    with pytest.raises(ValueError, match="a share is from 0 to 1"):
        split_of(questions[0], 1.5)


def test_a_follow_up_asks_about_the_answer_without_naming_it() -> None:
    for seed in range(40):
        problem = generate("buying", 5, seed)
        after = follow_up(problem, seed)
        assert results_of(after)[-1] == after.answer
        assert "your answer" in after.question.text
        other = follow_up(generate("buying", 5, seed + 1), seed)
        assert other.question == after.question


def test_an_unknown_family_or_difficulty_is_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 'ages'"):
        generate("age", 1, 0)
    for difficulty in (0, 6):
        with pytest.raises(ValueError, match="from 1 to 5"):
            generate("ages", difficulty, 0)


def test_a_story_refuses_words_that_are_not_listed_and_negative_results() -> None:
    family = Family("test", {"has": ("{name} has {count}.",)}, ("left",), lambda story: None)
    story = Story(family, 1, Draws("test"))
    with pytest.raises(ValueError, match="not among the listed words"):
        story.tell("has", name="Nobody", count=3)
    with pytest.raises(ValueError, match="would be -1"):
        story.step("left", 2, "-", 3)
    with pytest.raises(ValueError, match="not among the labels"):
        story.step("right", 2, "-", 1)


def test_draws_stay_in_their_range_and_reach_both_ends() -> None:
    draws = Draws("seed")
    assert {draws.whole(3, 6) for _ in range(200)} == {3, 4, 5, 6}
    assert sorted(draws.some("abcde", 5)) == list("abcde")
