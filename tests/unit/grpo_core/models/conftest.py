"""The tokenizer of the adapter tests."""

from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerBase

from services.inference.word_tokenizer import make_word_tokenizer
from tests.unit.grpo_core.support.cases import VOCABULARY


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return make_word_tokenizer([f"w{number}" for number in range(VOCABULARY - 4)], r"\S+")
