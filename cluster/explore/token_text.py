"""Tokens as words, by the tokenizer of a run's newest checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol


class TokenText(Protocol):
    """Adds words to the tokens of a trace, in place of their numbers."""

    def add_to(self, trace: dict[str, Any]) -> None:
        """Put ``words`` and ``prompt_text`` in place of ``completion`` and ``prompt``."""


class _Numbers:
    """There is no tokenizer: tokens keep their numbers."""

    def add_to(self, trace: dict[str, Any]) -> None:
        for turn in _numbered(trace):
            turn["words"] = [f"#{token}" for token in turn["completion"]]
            turn["prompt_text"] = ""
            del turn["prompt"], turn["completion"]


class _Words:
    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, str] = {}

    def add_to(self, trace: dict[str, Any]) -> None:
        for turn in _numbered(trace):
            turn["words"] = [self._word(token) for token in turn["completion"]]
            turn["prompt_text"] = self._tokenizer.decode(turn["prompt"])
            del turn["prompt"], turn["completion"]

    def _word(self, token: int) -> str:
        if token not in self._known:
            self._known[token] = self._tokenizer.decode([token])
        return self._known[token]


def _numbered(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """The turns whose tokens have no words yet; steps of small networks have."""
    return [turn for turn in trace["tokens"] if "words" not in turn]


NUMBERS: TokenText = _Numbers()


def token_text(checkpoint: Path | None) -> TokenText:
    """The words of a checkpoint's tokenizer, or numbers where there is none."""
    if checkpoint is None:
        return NUMBERS
    from grpo_core.models.pretrained import load_tokenizer  # takes seconds

    return _Words(load_tokenizer(checkpoint))
