"""What a trained policy reads: compact notation, or a conversation through its tokenizer's chat template."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from opponents.prompts.chat_messages import CUTS, Section, messages_of, sections
from opponents.prompts.chat_template import ChatTemplate
from services.environments.diplomacy.notation import render
from services.environments.diplomacy.orders import OrderSlot, sheet
from services.environments.diplomacy.position import Position
from services.inference.engine import EngineError


@dataclass(frozen=True, slots=True)
class PromptView:
    """A prompt as a player reads it, and the size of each of its parts."""

    text: str
    sizes: Mapping[str, int]
    unit: Literal["tokens", "characters"]


class PolicyPrompt(Protocol):
    """Writes a position as a prompt for one tokenizer."""

    def text(self, position: Position, power: str) -> str:
        """The prompt for ``power``'s order sheet; EngineError if it cannot be made to fit."""
        ...

    def ids(self, position: Position, power: str) -> tuple[int, ...]:
        """The tokens of ``text``."""
        ...

    def section_tokens(self, position: Position, power: str) -> dict[str, int]:
        """The tokens of each part of ``text``, which add up to all of them."""
        ...


class NotationPrompt:
    """The position in a few dozen words, for policies that learn from nothing."""

    def __init__(self, encode: Callable[[str], tuple[int, ...]]) -> None:
        self._encode = encode

    def text(self, position: Position, power: str) -> str:
        """The prompt for ``power``'s order sheet."""
        return render(position, power)

    def ids(self, position: Position, power: str) -> tuple[int, ...]:
        """The tokens of ``text``."""
        return self._encode(render(position, power))

    def section_tokens(self, position: Position, power: str) -> dict[str, int]:
        """The position is the only part."""
        return {"position": len(self.ids(position, power))}


class ChatPrompt:
    """Rules in brief, position, last orders, threats and legal orders, within a budget of tokens."""

    def __init__(self, template: ChatTemplate, budget: int, *, thinking: bool) -> None:
        """Write prompts of at most ``budget`` tokens; with ``thinking`` the model is asked to think first."""
        self._template = template
        self._budget = budget
        self._thinking = thinking

    def text(self, position: Position, power: str) -> str:
        """The prompt for ``power``'s order sheet, cut as ``chat_messages.CUTS`` says; EngineError if it is too long."""
        return self._fitting(position, power)[1]

    def ids(self, position: Position, power: str) -> tuple[int, ...]:
        """The tokens of ``text``."""
        return self._fitting(position, power)[2]

    def section_tokens(self, position: Position, power: str) -> dict[str, int]:
        """The tokens of each part of ``text``; ``template`` has those of the chat template's own."""
        parts, text, ids = self._fitting(position, power)
        counts = dict.fromkeys(["template", *(part.name for part in parts)], 0)
        places = _places(parts, text)
        for start, end in self._template.spans(text):
            middle = (start + end) / 2
            counts[next((name for name, first, last in places if first <= middle < last), "template")] += 1
        assert sum(counts.values()) == len(ids), "every token belongs to one part"
        return counts

    def _fitting(self, position: Position, power: str) -> tuple[list[Section], str, tuple[int, ...]]:
        slots: Sequence[OrderSlot] = sheet(position, power)
        for cut in range(len(CUTS) + 1):
            parts = sections(position, power, slots, thinking=self._thinking, cut=cut)
            text = self._template.text(messages_of(parts))
            ids = self._template.ids(text)
            if len(ids) <= self._budget:
                return parts, text, ids
        raise EngineError(
            f"the shortest prompt for {power} in {position.phase} has {len(ids)} tokens, and there is room for "
            f"{self._budget}: raise policy.context_length, or lower inference.thinking_tokens or max_completion_length"
        )


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
