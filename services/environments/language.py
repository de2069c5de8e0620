"""How a world is written: prompts, the texts that answer them, and their words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from services.environments.playing import Answer, Defect, Slot, View


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a chat prompt."""

    name: str
    role: Literal["system", "user", "assistant"]
    text: str


class Language(ABC):
    """How a world is written: prompts, the texts that answer them, and their words."""

    # What a chat prompt that is too long leaves out, one after another; the rest always stays.
    cuts: ClassVar[tuple[str, ...]] = ()
    shortest_chat_prompt: ClassVar[int] = 100  # tokens that published tokenizers need for rules and any view
    has_coordination: ClassVar[bool] = False  # whether ``coordinated`` excludes anything
    longest_notes: ClassVar[int] = 0  # words of all ``notes`` of an answer; 0: the world has none
    rules: ClassVar[str] = ""  # what a chat model is told first
    has_masks: ClassVar[bool] = True  # whether ``slots`` ever says what may be written
    chat_is_free: ClassVar[bool] = False  # whether ``is_free`` is ever true where ``has_masks`` says that masks exist
    stop: ClassVar[str | None] = None  # ends a free text, and stays in it; None: only the end of a text does
    answer_title: ClassVar[str] = "Answer"  # written between a thought and the answer by models without thought tokens
    example: ClassVar[str]  # a part of an answer, which every tokenizer must be able to write
    word_pattern: ClassVar[str]  # of a small policy's tokenizer: each match is a word, other characters are dropped
    # How its words, joined by spaces, become text again: patterns and what replaces their matches.
    joins: ClassVar[Sequence[tuple[str, str]]] = ()

    @abstractmethod
    def words(self) -> Sequence[str]:
        """All words of prompts and answers, for a small policy's tokenizer."""

    def optional_words(self) -> Sequence[str]:
        """Those of ``words`` that a policy may lack: it then reads and writes ``without_optional_words``."""
        return ()

    def without_optional_words(self) -> Language:
        """The language without ``optional_words`` and what they are for."""
        return self

    @abstractmethod
    def prompt(self, view: View, seat: str) -> str:
        """The view in compact notation, for a policy that learns from nothing."""

    def note_words(self) -> Sequence[str]:
        """Further words of ``notes``, for the tokenizer of a small policy that asks for them."""
        return ()

    def notes(self, view: View, seat: str) -> Sequence[str]:
        """A text for each of ``slots``, which is written before it for a policy that asks for notes.

        It says what the rules make of the view for this slot. Its words are those of prompts and answers, and
        ``note_words``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no notes")

    def sections(self, view: View, seat: str, *, thinking: bool = False, cut: int = 0) -> Sequence[Section]:  # noqa: ARG002
        """The parts of the prompt for a chat model, without the first ``cut`` of ``cuts``.

        With ``thinking`` the model is asked to think first.
        """
        rules = [self.rules, *(["Think before you answer."] if thinking else [])]
        return [Section("rules", "system", " ".join(rules)), Section("position", "user", self.prompt(view, seat))]

    @abstractmethod
    def slots(self, view: View, seat: str) -> tuple[Slot, ...] | None:
        """What may be written: an answer has one alternative of each slot, a line each. None: any text."""

    def is_free(self, view: View, seat: str) -> bool:
        """Whether a chat model writes any text here, for ``parse``, though ``slots`` has a compact form of it."""
        return self.slots(view, seat) is None

    def coordinated(self, slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        """The slots with further claims, which exclude legal answers whose parts stop one another."""
        return slots

    def parse(self, text: str, view: View, seat: str, thought: str = "") -> Answer:  # noqa: ARG002
        """What a text means that was written without a mask: by default one alternative of each slot, a line each.

        ``thought`` is the text that was written before it, where the model was asked to think first.
        """
        slots = self.slots(view, seat) or ()
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
        actions, defects = [], []
        for slot, line in zip(slots, lines, strict=False):
            meant = next((each for each in slot.alternatives if each.casefold() == line.casefold()), None)
            if meant is None:
                defects.append(Defect(line, "illegal"))
            else:
                actions.append(meant)
        defects += [Defect(line, "too_many") for line in lines[len(slots) :]]
        defects += [Defect(slot.alternatives[0], "missing") for slot in slots[len(lines) :]]
        return Answer(tuple(actions), tuple(defects))

    def written(self, actions: Sequence[str], view: View, seat: str) -> tuple[str, ...]:  # noqa: ARG002
        """Legal actions as one alternative of each slot; where any text may be written, as one text."""
        return tuple(actions)

    def longest_answers(self) -> Sequence[Sequence[str]]:
        """Longest answers, one line each item, for the check of a model's tokenizer; () where any text may be."""
        return ()
