"""A small policy's tokenizer writes every question and every worked solution exactly as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from transformers import PreTrainedTokenizerFast

from services.environments.word_problems.answers import final_answer
from services.environments.word_problems.families.registry import FAMILIES, follow_up, generate
from services.environments.word_problems.instructions import ROLES
from services.environments.word_problems.play.game import Conversation
from services.environments.word_problems.play.language import WordProblemLanguage
from services.environments.word_problems.presets import PRESETS
from services.environments.word_problems.problem import DIFFICULTIES, WordProblem, completion_text
from services.environments.word_problems.rewards.components import form
from services.environments.word_problems.vocabulary import WORD_PATTERN, join, split
from services.inference.word_tokenizer import make_word_tokenizer

LANGUAGE = WordProblemLanguage()


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return make_word_tokenizer(LANGUAGE.words(), LANGUAGE.word_pattern, LANGUAGE.joins)


def problems() -> Iterator[WordProblem]:
    yield from PRESETS
    for family in FAMILIES:
        for difficulty in DIFFICULTIES:
            for seed in range(10):
                problem = generate(family, difficulty, seed)
                yield problem
                yield follow_up(problem, seed)


def test_what_is_encoded_decodes_to_the_same_text(tokenizer: PreTrainedTokenizerFast) -> None:
    count = 0
    for problem in problems():
        view = Conversation((problem.question,))
        for text in (completion_text(problem), LANGUAGE.prompt(view, ROLES[count % len(ROLES)])):
            ids = tokenizer.encode(text)
            assert tokenizer.unk_token_id not in ids
            assert tokenizer.decode(ids) == text == join(split(text))
        count += 1
    assert count > 1000


def test_the_pattern_of_words_is_that_of_the_vocabulary() -> None:
    assert LANGUAGE.word_pattern == WORD_PATTERN
    assert LANGUAGE.example


def test_a_completion_ends_with_the_stop_text() -> None:
    assert all(completion_text(problem).endswith(LANGUAGE.stop) for problem in PRESETS)
    assert not any(LANGUAGE.stop in completion_text(problem)[: -len(LANGUAGE.stop)] for problem in PRESETS)


def test_any_text_may_be_written_and_is_taken_whole() -> None:
    view = Conversation((PRESETS[0].question,))
    assert LANGUAGE.slots(view, ROLES[0]) is None
    assert not LANGUAGE.has_masks
    for text in ("", "a\nb", " 1 "):
        assert LANGUAGE.parse(text, view, ROLES[0]).actions == (text,)
        assert not LANGUAGE.parse(text, view, ROLES[0]).defects


def test_a_chat_model_gets_a_conversation() -> None:
    one, two = PRESETS[0].question, PRESETS[1].question
    sections = LANGUAGE.sections(Conversation((one, two), ("5 apples",)), ROLES[0], thinking=True)
    assert [(section.name, section.role) for section in sections] == [
        ("instruction", "system"),
        ("question", "user"),
        ("reply", "assistant"),
        ("question", "user"),
    ]
    assert [section.text for section in sections[1:]] == [one.text, "5 apples", two.text]


def test_a_model_that_marks_its_thoughts_itself_is_not_asked_for_tags_and_still_writes_in_form() -> None:
    view = Conversation((PRESETS[0].question,))
    with_tags, without = (LANGUAGE.sections(view, ROLES[0], thinking=thinking)[0].text for thinking in (False, True))
    assert "<think>" in with_tags
    assert "<think>" not in without
    assert "<response>" in without
    (completion,) = LANGUAGE.parse("<response>7</response>", view, ROLES[0], "<think>\n3 + 4 = 7\n</think>\n\n").actions
    assert completion == "<think>\n3 + 4 = 7\n</think>\n<response>7</response>"
    assert form(completion, PRESETS[0]) == 1
    (hidden,) = LANGUAGE.parse("<response>7</response>", view, ROLES[0], "<response>8</response>").actions
    assert final_answer(hidden) == 7
