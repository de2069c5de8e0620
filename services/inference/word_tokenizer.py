"""A word-level tokenizer over a given list of words, in the standard Hugging Face files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

PAD, BOS, EOS, UNK = SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")


def make_word_tokenizer(
    words: Sequence[str], pattern: str, joins: Sequence[tuple[str, str]] = ()
) -> PreTrainedTokenizerFast:
    r"""Return a tokenizer whose ids are ``<pad> <bos> <eos> <unk>`` (0 to 3), then ``words`` in order.

    Text is cut into the matches of ``pattern``; text between them is dropped, and each match is looked up whole.
    Decoding joins words with single spaces and puts none around a ``\n`` word; then each of ``joins``, a pattern and
    what replaces its matches, is applied to the text. Encoding adds no special token. Raises ``ValueError`` if a word
    is listed twice, is a special token, or is not one match of the pattern.
    """
    compiled = re.compile(pattern)
    for word in words:
        if word in SPECIAL_TOKENS or compiled.findall(word) != [word]:
            raise ValueError(f"the pattern does not give {word!r} as one word")
    vocabulary = {token: index for index, token in enumerate((*SPECIAL_TOKENS, *words))}
    if len(vocabulary) != len(SPECIAL_TOKENS) + len(words):
        raise ValueError("a word is listed twice")
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=UNK))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="removed", invert=True)
    # The WordPiece decoder puts spaces between words; no word has its continuation prefix.
    joined = [decoders.WordPiece(prefix="\0", cleanup=False), decoders.Fuse()]
    tight_lines = [decoders.Replace(" \n", "\n"), decoders.Replace("\n ", "\n")]
    written = [decoders.Replace(Regex(found), replacement) for found, replacement in joins]
    backend.decoder = decoders.Sequence(joined + tight_lines + written)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        unk_token=UNK,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def with_words(
    tokenizer: PreTrainedTokenizerBase, words: Sequence[str], joins: Sequence[tuple[str, str]] = ()
) -> PreTrainedTokenizerBase:
    """Return a tokenizer of ``make_word_tokenizer`` with those of ``words`` that it lacks behind its own, in order.

    The ids of its own words stay. Any other tokenizer is returned as it is, and so is one that lacks none. Raises
    ``ValueError`` if its pattern does not give a word that it lacks as one word.
    """
    found = _listed(tokenizer)
    if found is None:
        return tokenizer
    listed, pattern = found
    known = set(listed)
    lacking = [word for word in words if word not in known]
    return make_word_tokenizer([*listed, *lacking], pattern, joins) if lacking else tokenizer


def _listed(tokenizer: PreTrainedTokenizerBase) -> tuple[list[str], str] | None:
    """The words of a tokenizer of ``make_word_tokenizer``, in the order of their ids, and its pattern; else None."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not isinstance(backend.model, models.WordLevel):
        return None
    definition = json.loads(backend.to_str())
    vocabulary: dict[str, int] = definition["model"]["vocab"]
    listed = sorted(vocabulary.keys() - set(SPECIAL_TOKENS), key=vocabulary.__getitem__)
    try:
        pattern: str = definition["pre_tokenizer"]["pattern"]["Regex"]
        remade = make_word_tokenizer(listed, pattern)
    except (KeyError, TypeError, ValueError):  # it splits text in another way
        return None
    made: dict[str, object] = json.loads(remade.backend_tokenizer.to_str())
    return None if {**made, "decoder": None} != {**definition, "decoder": None} else (listed, pattern)


def word_encoder(tokenizer: PreTrainedTokenizerBase) -> Callable[[str], tuple[int, ...]] | None:
    """Make a fast ``encode`` for a tokenizer of ``make_word_tokenizer``; None for any other tokenizer."""
    found = _listed(tokenizer)
    if found is None:
        return None
    listed, pattern = found
    find, ids = re.compile(pattern).findall, {word: len(SPECIAL_TOKENS) + place for place, word in enumerate(listed)}

    def encode(text: str) -> tuple[int, ...]:
        try:
            return tuple([ids[word] for word in find(text)])
        except KeyError:
            return tuple(tokenizer.encode(text))

    return encode
