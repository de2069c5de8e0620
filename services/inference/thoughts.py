"""Thoughts: free text that a policy writes before an answer, and how a tokenizer marks its beginning and end."""

from __future__ import annotations

from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

THINK, END_THINK = "<think>", "</think>"
# Around the thought of a model that has no tokens of its own for it.
_PLAIN_OPENING, _PLAIN_CLOSING = "Thoughts:\n", "\n\n{}:\n"


@dataclass(frozen=True, slots=True)
class ThoughtFormat:
    """The tokens around a thought; those of the thought itself are sampled from the whole vocabulary."""

    opening: tuple[int, ...]  # forced before it
    end_id: int | None  # with which the model ends it; None: only the end of a text does
    after_end: tuple[int, ...]  # forced after ``end_id``
    closing: tuple[int, ...]  # forced where it ended in another way: at the end of a text or after ``max_tokens``
    max_tokens: int  # of the thought, ``end_id`` included; at least 1

    @property
    def longest(self) -> int:
        """Most tokens before the answer."""
        return len(self.opening) + self.max_tokens + max(len(self.closing), len(self.after_end))

    @property
    def empty(self) -> tuple[int, ...]:
        """A thought without a token, as a teacher leaves it out."""
        return (*self.opening, *self.closing)


def thought_format(tokenizer: PreTrainedTokenizerBase, prompt: str, max_tokens: int, answer: str) -> ThoughtFormat:
    """Return how this tokenizer writes thoughts of at most ``max_tokens`` after prompts that end as ``prompt`` does.

    Reasoning models have ``<think>`` and ``</think>`` as tokens, and some of their templates open the thought already.
    For other models the thought is a part of the answer, between two plain words, the second of which is ``answer``.
    """

    def encode(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.encode(text, add_special_tokens=False))

    known = tokenizer.get_vocab()
    if THINK not in known or END_THINK not in known:
        return ThoughtFormat(encode(_PLAIN_OPENING), None, (), encode(_PLAIN_CLOSING.format(answer)), max_tokens)
    opened = prompt.rstrip().endswith(THINK)
    return ThoughtFormat(
        opening=() if opened else encode(f"{THINK}\n"),
        end_id=known[END_THINK],
        after_end=encode("\n\n"),
        closing=encode(f"\n{END_THINK}\n\n"),
        max_tokens=max_tokens,
    )
