"""The words of prompts and solutions are finite, listed, and survive a word-level tokenizer."""

from __future__ import annotations

from services.environments.word_problems.families.registry import FAMILIES, follow_up, generate
from services.environments.word_problems.instructions import ROLES, prompt_text
from services.environments.word_problems.presets import PRESETS
from services.environments.word_problems.problem import DIFFICULTIES, Question, WordProblem, completion_text
from services.environments.word_problems.vocabulary import WORD_PATTERN, can_write, characters, join, split, words
from services.inference.word_tokenizer import make_word_tokenizer


def made() -> list[WordProblem]:
    problems = [generate(family, level, seed) for family in FAMILIES for level in DIFFICULTIES for seed in range(20)]
    return [*PRESETS, *problems, *(follow_up(problem, problem.seed) for problem in problems)]


def test_every_word_of_every_problem_is_listed() -> None:
    listed = frozenset(words())
    assert len(listed) < 500
    for problem in made():
        assert can_write(problem), listed.symmetric_difference(split(problem.question.text)) - listed
        for role in ROLES:
            assert listed.issuperset(split(prompt_text(role, [problem.question])))


def test_words_that_are_not_listed_are_noticed() -> None:
    problem = PRESETS[0]
    other = WordProblem(Question("What is a xylophone?"), (), problem.answer, "x", 1, 0)
    assert not can_write(other)


def test_joining_the_words_gives_back_the_text() -> None:
    for problem in made():
        for text in (prompt_text("be_concise", [problem.question]), completion_text(problem)):
            assert join(split(text)) == text
            assert set(text) <= set(characters())


def test_a_word_tokenizer_reads_and_writes_solutions() -> None:
    tokenizer = make_word_tokenizer(words(), WORD_PATTERN)
    for problem in made()[:200]:
        text = completion_text(problem)
        ids = tokenizer.encode(text)
        assert tokenizer.unk_token_id not in ids
        assert join(split(tokenizer.decode(ids))) == text
