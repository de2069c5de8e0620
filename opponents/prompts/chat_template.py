"""A tokenizer's own chat template, checked before it is relied on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from transformers import PreTrainedTokenizerBase

from grpo_core.errors import CheckpointError, one_line
from services.inference.messages import Message
from services.inference.thoughts import END_THINK, THINK

# What a conversation may hold: lines, marks of orders, and the other languages of thoughts.
_PROBES = (
    "Rules:\nA PAR - BUR | F NTH C A LON - NWY\n\n(34) *18*",
    "Position: STP/SC, {curly} <angle> [square] 50 %",
    "A PAR - BUR\nF BRE H",
    "That cannot stand: é ü 漢\nWrite it again.",
)

_DAY = datetime(2024, 7, 26)


class ChatTemplate:
    """Writes conversations as the model was trained to read them."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, thinking: bool = False) -> None:
        """Check the tokenizer's template; with ``thinking``, templates that can begin a thought are asked to.

        Raises CheckpointError if there is no template, or it loses, changes or reorders what was said before.
        """
        self._tokenizer = tokenizer
        self._thinking = thinking
        if not tokenizer.chat_template:
            raise CheckpointError(
                f"the tokenizer of {_name(tokenizer)} has no chat template; take the model's instruct version, or set "
                "policy.prompt = notation"
            )
        self._check()

    def text(self, conversation: Sequence[Message]) -> str:
        """The prompt that asks for the next message of the assistant.

        Raises CheckpointError if the template refuses this conversation.
        """
        text = self._render(conversation, add_generation_prompt=True)
        if not self._thinking and text.rstrip().endswith(THINK):  # it knows no other way: the thought stays empty
            text = f"{text.rstrip()}\n\n{END_THINK}\n\n"
        return text

    def ids(self, text: str) -> tuple[int, ...]:
        """The tokens of ``text``; the template has written all special tokens."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The characters of each token of ``text``. Raises CheckpointError if the tokenizer does not know them."""
        try:
            found = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        except NotImplementedError as error:
            message = f"the tokenizer of {_name(self._tokenizer)} is a slow one, and cannot tell tokens by section"
            raise CheckpointError(message) from error
        return [(start, end) for start, end in found["offset_mapping"]]

    def _render(self, conversation: Sequence[Message], *, add_generation_prompt: bool) -> str:
        try:
            rendered: Any = self._tokenizer.apply_chat_template(
                [dict(message) for message in conversation],
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                enable_thinking=self._thinking,
                # Some templates write today's date; the same game must give the same prompts tomorrow.
                date_string=_DAY.strftime("%d %b %Y"),
                strftime_now=_DAY.strftime,
            )
        except Exception as error:  # templates raise their own errors, and jinja's
            raise CheckpointError(f"{self._where()} fails: {one_line(error, 200)}") from error
        return str(rendered)

    def _check(self) -> None:
        """Check with conversations of one, two and four messages what becomes of their words."""
        system, question, answer, again = _PROBES
        conversation: list[Message] = [
            {"role": "system", "content": system},
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
            {"role": "user", "content": again},
        ]
        for length in (2, 4):
            shown = self._render(conversation[:length], add_generation_prompt=True)
            at = 0
            for message in conversation[:length]:
                place = shown.find(message["content"], at)
                if place < 0:
                    what = "reorders" if message["content"] in shown else "loses or rewrites"
                    raise CheckpointError(f"{self._where()} {what} the {message['role']} message; {_REMEDY}")
                at = place + len(message["content"])
        asked = self._render(conversation[:2], add_generation_prompt=False)
        if not shown.startswith(asked):
            raise CheckpointError(f"{self._where()} rewrites what was said before when an answer follows; {_REMEDY}")
        if not self._render(conversation[:2], add_generation_prompt=True).startswith(asked):
            raise CheckpointError(f"{self._where()} writes a question in another way before an answer; {_REMEDY}")

    def _where(self) -> str:
        return f"the chat template of {_name(self._tokenizer)}"


_REMEDY = "take another model's template (tokenizer.chat_template), or set policy.prompt = notation"


def _name(tokenizer: PreTrainedTokenizerBase) -> str:
    return one_line(tokenizer.name_or_path or type(tokenizer).__name__, 100)
