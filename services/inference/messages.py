"""The messages of a conversation with a chat model."""

from __future__ import annotations

from typing import Literal, TypedDict


class Message(TypedDict):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str
