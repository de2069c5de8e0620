"""The string that ends a free text, found in the tokens of word-level and byte-pair tokenizers, and by the engine."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from services.environments.word_problems.play.language import WordProblemLanguage
from services.environments.word_problems.presets import PRESETS
from services.environments.word_problems.problem import completion_text
from services.inference.engine import GenerationRequest
from services.inference.sequence import FreeState, ModelLimits
from services.inference.stop_text import StopText
from services.inference.torch_backend.engine import TorchEngine
from services.inference.word_tokenizer import make_word_tokenizer
from tests.chat_models import chat_model, chat_tokenizer
from tests.unit.services.inference.torch_backend.cases import write

STOP = "</response>"
TEXTS = [completion_text(problem) for problem in PRESETS] + [
    "</response>",
    "x</response>",
    "<response>1</response",
    "</respons></response>",
    "<</response>",
    "</ response>, and then </response>",
    "é</response>",
    "💶💶</response>",
    "no end at all > >",
    ">>>>",
]


def word_tokenizer() -> PreTrainedTokenizerFast:
    language = WordProblemLanguage()
    return make_word_tokenizer(language.words(), language.word_pattern, language.joins)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Every byte is a token: no tokenizer spreads a text over more."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=False)


def merged_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens go over both ends of the stop text: "1</", "res", "ponse", ">\\n"."""
    backend = Tokenizer.from_str(byte_tokenizer().backend_tokenizer.to_str())
    vocabulary = backend.get_vocab()
    merges = []
    for word in ("1</", "res", "ponse", ">Ċ"):
        made = word[0]
        for letter in word[1:]:
            merges.append((made, letter))
            made += letter
            vocabulary.setdefault(made, len(vocabulary))
    merged = Tokenizer(models.BPE(vocabulary, merges))
    merged.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    merged.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=merged, clean_up_tokenization_spaces=False)


TOKENIZERS = {"words": word_tokenizer, "chat": chat_tokenizer, "bytes": byte_tokenizer, "merged": merged_tokenizer}


def end_of(stop: StopText, ids: list[int]) -> int | None:
    """How many tokens are written when the stop text is found."""
    return next((length for length in range(1, len(ids) + 1) if stop.ended_by(ids[:length])), None)


def slow_end_of(tokenizer: PreTrainedTokenizerBase, ids: list[int], text: str = STOP) -> int | None:
    return next((n for n in range(1, len(ids) + 1) if text in tokenizer.decode(ids[:n])), None)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_text_ends_with_the_token_that_completes_the_stop_text(name: str) -> None:
    tokenizer = TOKENIZERS[name]()
    stop = StopText(tokenizer, STOP)
    found = 0
    for text in TEXTS:
        ids = tokenizer.encode(f"{text} and more, > even </response> again", add_special_tokens=False)
        end = end_of(stop, ids)
        assert end == slow_end_of(tokenizer, ids)
        assert end is not None
        kept = tokenizer.decode(ids[:end])
        assert STOP in kept
        assert STOP not in tokenizer.decode(ids[: end - 1])
        found += STOP in text
    assert found >= len(PRESETS) + 5


def test_one_token_may_be_the_whole_text_or_many() -> None:
    words, chat = StopText(word_tokenizer(), STOP), StopText(chat_tokenizer(), STOP)
    assert words.token == word_tokenizer().convert_tokens_to_ids(STOP)
    assert words.ended_by([5, words.token])
    assert chat.token is None
    spread = byte_tokenizer().encode(STOP)
    assert len(spread) == len(STOP)
    assert StopText(byte_tokenizer(), STOP).ended_by(spread)


def test_a_token_that_goes_over_the_end_ends_the_text() -> None:
    tokenizer = merged_tokenizer()
    ids = tokenizer.encode("<response>1</response>\nmore")
    pieces = tokenizer.convert_ids_to_tokens(ids)
    assert {"1</", "res", "ponse", ">Ċ"} <= set(pieces)
    end = end_of(StopText(tokenizer, STOP), ids)
    assert end is not None
    assert pieces[end - 1] == ">Ċ"
    assert tokenizer.decode(ids[:end]) == "<response>1</response>\n"


@pytest.mark.parametrize("name", TOKENIZERS)
def test_random_tokens_end_where_a_slow_search_finds_it(name: str) -> None:
    tokenizer = TOKENIZERS[name]()
    stop, rng = StopText(tokenizer, STOP), random.Random(5)
    own = tokenizer.encode(STOP, add_special_tokens=False)
    pieces = [*({token for text in TEXTS for token in tokenizer.encode(text)} - set(own)), *own * 3]
    ends = set()
    for number in range(300):
        ids = rng.choices(pieces, k=rng.randint(1, 30))
        if number % 2:
            at = rng.randint(0, len(ids))
            ids[at:at] = own
        end = end_of(stop, ids)
        assert end == slow_end_of(tokenizer, ids)
        ends.add(end is None)
    assert ends == {True, False}


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(ValueError, match="the string that ends a text is empty"):
        StopText(byte_tokenizer(), "")


def test_free_text_goes_on_after_an_almost_and_ends_after_the_whole() -> None:
    tokenizer = byte_tokenizer()
    limits = ModelLimits.of(len(tokenizer), [None], 1000)
    state = FreeState(limits, 100, StopText(tokenizer, STOP))
    *before, last = tokenizer.encode("</respons></response>")
    for token in before:
        state.advance(token)
        assert not state.finished
    state.advance(last)
    assert state.ended
    assert state.finished
    cut = FreeState(limits, 3, StopText(tokenizer, STOP))
    for token in tokenizer.encode("</r"):
        cut.advance(token)
    assert cut.finished
    assert not cut.ended


def writing(prompt: list[int], ids: list[int]) -> PreTrainedModel:
    """A model that writes ``ids`` after ``prompt``: each token alone decides the next, so none may occur twice."""
    model = chat_model(context_length=256)
    follows = dict(pairwise([prompt[-1], *ids]))
    assert len(follows) == len(ids) <= model.config.hidden_size
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.zero_()
        for place, (token, following) in enumerate(follows.items()):
            model.get_input_embeddings().weight[token, place] = 1
            model.get_output_embeddings().weight[following, place] = 100
    return model


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_engine_stops_there_and_the_text_stays(temperature: float) -> None:
    tokenizer = chat_tokenizer()
    ids, more = tokenizer.encode("5" + STOP), list(range(400, 410))
    prompt = tokenizer.encode("Q")
    model = writing(prompt, ids + more)
    request = GenerationRequest(tuple(prompt), None, 7, temperature, max_completion_length=len(ids + more))
    [stopped, unstopped] = write(TorchEngine(model), [replace(request, stop=StopText(tokenizer, STOP)), request])
    assert unstopped.completion_ids.tolist() == ids + more
    assert not unstopped.finished
    assert stopped.completion_ids.tolist() == ids
    assert tokenizer.decode(ids) == "5" + STOP
    assert stopped.finished
    assert stopped.sampled_mask.all()


def test_a_text_that_is_cut_off_before_its_end_is_not_finished() -> None:
    tokenizer = chat_tokenizer()
    prompt, ids = tokenizer.encode("Q"), tokenizer.encode("5" + STOP)
    request = GenerationRequest(tuple(prompt), None, 7, 0.0, len(ids), stop=StopText(tokenizer, STOP))
    engine = TorchEngine(writing(prompt, ids))
    [cut, whole] = write(engine, [replace(request, max_completion_length=len(ids) - 1), request])
    assert cut.completion_ids.tolist() == ids[:-1]
    assert not cut.finished
    assert whole.completion_ids.tolist() == ids
    assert whole.finished
