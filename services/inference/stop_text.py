"""The string that ends a free text, found in the tokens of one tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from transformers import PreTrainedTokenizerBase


class StopText:
    """Recognises the token with which a text holds ``text``; the string stays in the completion."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, text: str) -> None:
        """Raises ValueError for an empty text."""
        if not text:
            raise ValueError("the string that ends a text is empty")
        self.text = text
        ids = tokenizer.encode(text, add_special_tokens=False)
        self.token: int | None = ids[0] if len(ids) == 1 else None  # where one token is the whole text
        self._tokenizer = tokenizer
        self._whole = self.token if self.token is not None and text in self._decode([self.token]) else None
        # Each token holds at least one byte of the text that it ends, or is special and has none.
        self._longest = len(text.encode()) + 4
        self._piece = lru_cache(maxsize=1 << 16)(self._decoded_alone)

    def ended_by(self, completion_ids: Sequence[int]) -> bool:
        """Whether the last token of a completion, which did not hold the text before, completes it."""
        if completion_ids[-1] == self._whole:
            return True
        # A byte of a character beyond ASCII shows as the replacement character by itself.
        if self.text[-1].isascii() and self.text[-1] not in self._piece(completion_ids[-1]):
            return False
        return self.text in self._decode(completion_ids[-self._longest :])

    def _decoded_alone(self, token: int) -> str:
        return self._decode([token])

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))
