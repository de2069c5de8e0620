from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from services.environments.diplomacy.rules.orders import WORD_PATTERN
from services.environments.diplomacy.text.notation import words
from services.inference.word_tokenizer import SPECIAL_TOKENS, make_word_tokenizer, with_words, word_encoder

TEXT = "A PAR - BUR\nF STP/SC S A MOS - LVN\nWAIVE\n"


def test_words_become_ids_in_order_after_the_special_tokens() -> None:
    tokenizer = make_word_tokenizer(["A PAR", "-", "BUR", "\n"], WORD_PATTERN)
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id) == (
        *range(4),
    )
    assert tokenizer.encode("A PAR - BUR\n") == [4, 5, 6, 7]
    assert tokenizer.encode("A PAR - MUN\n") == [4, 5, 3, 7]


def test_order_sheets_survive_encoding_and_decoding() -> None:
    tokenizer = make_word_tokenizer(words(), WORD_PATTERN)
    ids = tokenizer.encode(TEXT)
    assert tokenizer.unk_token_id not in ids
    assert len(ids) == 4 + 6 + 2
    assert tokenizer.decode(ids) == TEXT
    assert tokenizer.decode([*ids, tokenizer.eos_token_id], skip_special_tokens=True) == TEXT


def test_standard_files_load_with_the_standard_class(tmp_path: Path) -> None:
    tokenizer = make_word_tokenizer(words(), WORD_PATTERN)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.encode(TEXT) == tokenizer.encode(TEXT)
    assert loaded.decode(loaded.encode(TEXT)) == TEXT
    assert loaded.eos_token_id == tokenizer.eos_token_id
    assert len(loaded) == len(words()) + 4


@pytest.mark.parametrize("listed", [["BUR", "BUR"], ["<eos>"], ["A PAR BUR"], [""]])
def test_words_that_the_pattern_does_not_match_are_refused(listed: list[str]) -> None:
    with pytest.raises(ValueError, match="word"):
        make_word_tokenizer(listed, WORD_PATTERN)


def test_words_that_a_tokenizer_lacks_come_behind_its_own() -> None:
    tokenizer = make_word_tokenizer(words(), WORD_PATTERN)
    assert with_words(tokenizer, words()[::-1]) is tokenizer
    grown = with_words(tokenizer, ["PEACE", words()[0], "ACCEPT"])
    assert grown.get_vocab() == tokenizer.get_vocab() | {"PEACE": len(tokenizer), "ACCEPT": len(tokenizer) + 1}
    assert grown.encode(TEXT) == tokenizer.encode(TEXT)
    assert word_encoder(grown) is not None
    with pytest.raises(ValueError, match="the pattern does not give 'p q' as one word"):
        with_words(tokenizer, ["p q"])


def test_a_tokenizer_of_another_kind_gets_no_words() -> None:
    other = make_word_tokenizer(words(), WORD_PATTERN)
    other.backend_tokenizer.normalizer = normalizers.Lowercase()
    assert with_words(other, ["PEACE"]) is other


TOKENIZER = make_word_tokenizer(words(), WORD_PATTERN)
# What prompts and sheets are made of, and what they never hold: special tokens, other words, words run together.
pieces = st.sampled_from([*words(), *SPECIAL_TOKENS, " ", "\n", "; ", ", ", "(", ")", "/", "PARIS", "é", "a", "<"])


@given(st.lists(pieces, max_size=12), st.sampled_from(["", " "]))
def test_the_fast_encoder_equals_the_tokenizer_on_any_text(drawn: list[str], between: str) -> None:
    encode, text = word_encoder(TOKENIZER), between.join(drawn)
    assert encode is not None
    assert list(encode(text)) == TOKENIZER.encode(text) == TOKENIZER.encode(text, add_special_tokens=False)


def test_a_loaded_tokenizer_has_the_fast_encoder_too(tmp_path: Path) -> None:
    TOKENIZER.save_pretrained(tmp_path)
    encode = word_encoder(AutoTokenizer.from_pretrained(tmp_path))
    assert encode is not None
    assert list(encode(TEXT)) == TOKENIZER.encode(TEXT)


def test_other_tokenizers_have_no_fast_encoder() -> None:
    backend = make_word_tokenizer(words(), WORD_PATTERN).backend_tokenizer
    backend.normalizer = normalizers.Lowercase()
    assert word_encoder(PreTrainedTokenizerFast(tokenizer_object=backend)) is None
    backend.normalizer = backend.pre_tokenizer = None
    assert word_encoder(PreTrainedTokenizerFast(tokenizer_object=backend)) is None
