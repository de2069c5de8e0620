"""Reads the bodies of answers: chat completions and errors. Nothing in them is trusted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError
from pydantic_core import from_json

from grpo_core.errors import one_line

MOST_TOKENS = 10_000_000  # of one call; no model has a longer context
MOST_CHOICES = 100  # one is asked for; each takes far more memory than its bytes
READ_CHARACTERS = 2000  # of a server's explanation
_READ_BYTES = 65536  # of a body with an error: objects made of JSON take many times its bytes
# Any escape; the group is half of a surrogate pair, which servers write that cut an emoji at the limit of tokens.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A chat completion; a number of tokens is in [0, 10 million], or None where the server gives no such number."""

    text: str
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A server's error."""

    status: int
    explanation: str  # one printable line of at most 2000 characters
    code: str  # as the explanation; empty without one


class InvalidAnswerError(Exception):
    """A body is no chat completion; for the client, which makes an ``EndpointError`` of it."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _Message(_Strict):
    content: str | None = None


class _Choice(_Strict):
    message: _Message
    finish_reason: str | None = None


class _Completion(_Strict):
    choices: Annotated[list[_Choice], FailFast()] = Field(min_length=1, max_length=MOST_CHOICES)
    usage: Any = None


def read_answer(body: bytes) -> Answer:
    """Read the first choice of a chat completion, and its usage. Raises ``InvalidAnswerError`` with the reason.

    Half of a surrogate pair becomes U+FFFD: the rest of the answer is as good, and a retry would be cut there too.
    """
    completion = _completion(body)
    choice = completion.choices[0]
    usage = completion.usage if isinstance(completion.usage, dict) else {}
    return Answer(
        text=choice.message.content or "",
        finish_reason=choice.finish_reason,
        prompt_tokens=_tokens(usage.get("prompt_tokens")),
        completion_tokens=_tokens(usage.get("completion_tokens")),
    )


def _completion(body: bytes) -> _Completion:
    try:
        return _Completion.model_validate_json(body)
    except ValidationError as error:
        whole = _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], body)
        if whole != body:
            return _completion(whole)
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidAnswerError(f"{where}: {first['msg']}" if where else first["msg"]) from None


def read_error(status: int, body: bytes) -> Refusal | None:
    """Read the error that a body describes in whatever way; None if a body with a status of success describes none."""
    try:
        data = from_json(body[:_READ_BYTES])
    except ValueError:
        data = body[:_READ_BYTES].decode("utf-8", "replace")
    found = data.get("error") if isinstance(data, dict) else None
    if found is None:
        if 200 <= status < 300:
            return None
        found = data
    message = code = None
    if isinstance(found, dict):
        message, code = found.get("message"), found.get("code")
    shown = one_line(message if isinstance(message, str) and message else found, READ_CHARACTERS).rstrip(".")
    return Refusal(status, shown, one_line(code, READ_CHARACTERS) if isinstance(code, str) else "")


def _tokens(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None
