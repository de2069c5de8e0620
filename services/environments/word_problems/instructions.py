"""The instruction variants, and the prompts made of them: plain text for a small model, messages for a chat model.

A variant is a role: completions to the same question under the same variant are compared with each other. Prompts are
made of ``Question`` alone, which holds no solution and no answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypedDict

from services.environments.word_problems.problem import INSTRUCTION, QUESTION, RESPONSE, TAG_PATTERN, THINK, Question

STOP = f"</{RESPONSE}>"  # the string that ends a completion; the engine keeps it in the text

# Two sets of four: the first with the made problems, the second with GSM8K.
VARIANT_SETS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "made": MappingProxyType(
            {
                "step_by_step": "This is a math problem. Solve it step by step.",
                "short_arithmetic": "This is a math problem. Use short arithmetic first.",
                "final_answer": "This is a math problem. Focus on final answer.",
                "chain_of_thought": "This is a math problem. Use chain of thought.",
            }
        ),
        "gsm8k": MappingProxyType(
            {
                "solve_steps": "Solve step by step.",
                "use_chain": "Use chain of thought.",
                "be_concise": "Be concise but correct.",
                "explain_first": "Explain then answer.",
            }
        ),
    }
)
INSTRUCTIONS: Mapping[str, str] = MappingProxyType(
    {role: text for variants in VARIANT_SETS.values() for role, text in variants.items()}
)
ROLES = tuple(INSTRUCTIONS)

_TAG = re.compile(TAG_PATTERN, re.IGNORECASE)
_THOUGHT = f"Write your reasoning between <{THINK}> and </{THINK}>, with every calculation."
_SEPARATE_THOUGHT = "Think before you answer, with every calculation."
_FORM = f"Then write the final number alone between <{RESPONSE}> and </{RESPONSE}>."


class Message(TypedDict):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


def prompt_text(role: str, questions: Sequence[Question], replies: Sequence[str] = ()) -> str:
    """Return the plain prompt of a small model: the instruction, then questions and the model's replies in turn.

    ``replies`` are the completions to all questions but the last. Tags in them become spaces, so that no reply can
    pass for another part of the prompt.

    Raises ValueError for an unknown role, or where there is not one reply fewer than questions.
    """
    _check(role, questions, replies)
    parts = [f"<{INSTRUCTION}>{INSTRUCTIONS[role]}</{INSTRUCTION}>"]
    for question, reply in zip(questions, (*replies, None), strict=True):
        parts.append(f"<{QUESTION}>{question.text}</{QUESTION}>")
        if reply is not None:
            lines = (" ".join(line.split()) for line in _TAG.sub(" ", reply).splitlines())
            parts.append(f"<{RESPONSE}>{chr(10).join(line for line in lines if line)}</{RESPONSE}>")
    return "".join(parts)


def chat_messages(
    role: str, questions: Sequence[Question], replies: Sequence[str] = (), *, thinking: bool = False
) -> list[Message]:
    """Return the messages for a chat model: instruction and form of an answer first, then questions and replies.

    With ``thinking`` the model marks its thoughts in its own way. ``replies`` and errors as for ``prompt_text``, but
    replies stay as they were written.
    """
    _check(role, questions, replies)
    thought = _SEPARATE_THOUGHT if thinking else _THOUGHT
    messages: list[Message] = [{"role": "system", "content": f"{INSTRUCTIONS[role]} {thought} {_FORM}"}]
    for question, reply in zip(questions, (*replies, None), strict=True):
        messages.append({"role": "user", "content": question.text})
        if reply is not None:
            messages.append({"role": "assistant", "content": reply})
    return messages


def with_thought(completion: str, thought: str) -> str:
    """Return a completion with the thought before it in its tags; tags inside the thought become spaces."""
    inner = _TAG.sub(" ", thought).strip()
    return f"<{THINK}>\n{inner}\n</{THINK}>\n{completion}" if inner else completion


def _check(role: str, questions: Sequence[Question], replies: Sequence[str]) -> None:
    if role not in INSTRUCTIONS:
        raise ValueError(f"unknown instruction variant {role[:60]!r}; variants are: {', '.join(ROLES)}")
    if len(replies) != len(questions) - 1:
        raise ValueError(f"{len(questions)} questions need {len(questions) - 1} replies, not {len(replies)}")
    for question in questions:
        if not isinstance(question, Question):
            raise TypeError(f"a prompt is made of Question, not {type(question).__name__}")
