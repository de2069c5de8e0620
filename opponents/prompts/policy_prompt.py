"""What a trained policy reads: compact notation, or a conversation through its tokenizer's chat template."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from opponents.prompts.chat_template import ChatTemplate
from services.environments.language import Language, Section
from services.environments.playing import View
from services.inference.engine import EngineError
from services.inference.messages import Message


@dataclass(frozen=True, slots=True)
class PromptView:
    """A prompt as a player reads it, and the size of each of its parts."""

    text: str
    sizes: Mapping[str, int]
    unit: Literal["tokens", "characters"]


class PolicyPrompt(Protocol):
    """Writes what a seat sees as a prompt for one tokenizer."""

    def text(self, view: View, seat: str) -> str:
        """The prompt for ``seat``'s answer; EngineError if it cannot be made to fit."""
        ...

    def ids(self, view: View, seat: str) -> tuple[int, ...]:
        """The tokens of ``text``."""
        ...

    def section_tokens(self, view: View, seat: str) -> dict[str, int]:
        """The tokens of each part of ``text``, which add up to all of them."""
        ...


class NotationPrompt:
    """The world's compact notation, for policies that learn from nothing."""

    def __init__(self, language: Language, encode: Callable[[str], tuple[int, ...]]) -> None:
        self._language = language
        self._encode = encode

    def text(self, view: View, seat: str) -> str:
        """The prompt for ``seat``'s answer."""
        return self._language.prompt(view, seat)

    def ids(self, view: View, seat: str) -> tuple[int, ...]:
        """The tokens of ``text``."""
        return self._encode(self._language.prompt(view, seat))

    def section_tokens(self, view: View, seat: str) -> dict[str, int]:
        """The position is the only part."""
        return {"position": len(self.ids(view, seat))}


class ChatPrompt:
    """The world's chat prompt through a template, within a budget of tokens."""

    def __init__(self, language: Language, template: ChatTemplate, budget: int, *, thinking: bool) -> None:
        """Write prompts of at most ``budget`` tokens; with ``thinking`` the model is asked to think first."""
        self._language = language
        self._template = template
        self._budget = budget
        self._thinking = thinking

    def text(self, view: View, seat: str) -> str:
        """The prompt for ``seat``'s answer, cut as ``Language.cuts`` says; EngineError if it is too long."""
        return self._fitting(view, seat)[1]

    def ids(self, view: View, seat: str) -> tuple[int, ...]:
        """The tokens of ``text``."""
        return self._fitting(view, seat)[2]

    def section_tokens(self, view: View, seat: str) -> dict[str, int]:
        """The tokens of each part of ``text``; ``template`` has those of the chat template's own."""
        parts, text, ids = self._fitting(view, seat)
        counts = dict.fromkeys(["template", *(part.name for part in parts)], 0)
        places = _places(parts, text)
        for start, end in self._template.spans(text):
            middle = (start + end) / 2
            counts[next((name for name, first, last in places if first <= middle < last), "template")] += 1
        assert sum(counts.values()) == len(ids), "every token belongs to one part"
        return counts

    def _fitting(self, view: View, seat: str) -> tuple[Sequence[Section], str, tuple[int, ...]]:
        parts: Sequence[Section] = ()
        for cut in range(len(self._language.cuts) + 1):
            longer, parts = parts, self._language.sections(view, seat, thinking=self._thinking, cut=cut)
            if parts == longer:
                continue  # of what this cut leaves out, there is nothing here
            text = self._template.text(messages_of(parts))
            ids = self._template.ids(text)
            if len(ids) <= self._budget:
                return parts, text, ids
        raise EngineError(
            f"the shortest prompt for {seat} has {len(ids)} tokens, and there is room for {self._budget}: raise "
            "policy.context_length, or lower inference.thinking_tokens or max_completion_length"
        )


def messages_of(parts: Sequence[Section]) -> list[Message]:
    """The conversation that these parts make: successive parts of one speaker are one message, with empty lines."""
    return [
        {"role": role, "content": "\n\n".join(part.text for part in spoken)}
        for role, spoken in itertools.groupby(parts, key=lambda part: part.role)
    ]


def _places(parts: Sequence[Section], text: str) -> list[tuple[str, int, int]]:
    """Where each part lies in the text; the empty lines between parts belong to the one before."""
    places = []
    at = 0
    for part in parts:
        start = text.index(part.text, at)
        at = start + len(part.text)
        places.append((part.name, start, at))
    return [
        (name, start, following[1] if text[end : following[1]].isspace() else end)
        for (name, start, end), following in zip(places, [*places[1:], ("", -1, 0)], strict=True)
    ]
