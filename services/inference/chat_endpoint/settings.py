"""The settings of an OpenAI-compatible endpoint and its errors; light to import."""

from __future__ import annotations

import os
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from grpo_core.errors import EntenteError, one_line
from grpo_core.section import Settings

NO_KEY = "none"  # some servers want any key
_LONGEST_URL = 500
_SHOWN = 200  # characters of an endpoint in a message


class EndpointError(EntenteError, RuntimeError):
    """An endpoint gave no usable answer; the message has one line: which endpoint, what happened and what to do."""


class EndpointRefusedError(EndpointError):
    """Later calls would fail too: a key is missing or not accepted, or the model or the path is unknown."""


class EndpointSettings(Settings):
    """One model behind a URL: its requests, limits and prices."""

    base_url: str = Field(description="URL of the API, up to and with /v1, e.g. http://127.0.0.1:8000/v1")
    model: str = Field(min_length=1, max_length=256, description="Name of the model as the server knows it")
    api_key_variable: str | None = Field(
        None, min_length=1, description="Environment variable that holds the key; unset: the server asks for none"
    )
    timeout_s: float = Field(60.0, gt=0, description="Seconds for one attempt of a call")
    max_retries: int = Field(
        4, ge=0, le=100, description="Further attempts after time-outs, lost connections, 429 and 5xx"
    )
    max_in_flight: int = Field(8, ge=1, description="Calls under way at once, from one process")
    max_answer_kib: int = Field(1024, ge=16, le=65536, description="KiB of the longest body of an answer that is read")
    temperature: float | None = Field(None, ge=0, description="Sampling temperature; unset: the server's own")
    max_completion_length: int = Field(512, ge=16, description="Tokens of the longest answer, reasoning included")
    structured: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Masks of legal orders (vLLM's structured_outputs); auto: where the server has them; off: text",
    )
    price_per_million_prompt_tokens: float = Field(
        0.0, ge=0, le=1e9, description="For the cost that is shown; any currency"
    )
    price_per_million_completion_tokens: float = Field(
        0.0, ge=0, le=1e9, description="For the cost that is shown; the same currency"
    )

    @field_validator("base_url")
    @classmethod
    def _is_a_url_without_secrets(cls, value: str) -> str:
        if not value.isprintable() or " " in value or len(value) > _LONGEST_URL:
            raise ValueError(f"base_url must be a URL of at most {_LONGEST_URL} characters, without spaces")
        try:
            parts = urlsplit(value)
            _ = parts.port  # read when it is asked for
        except ValueError as error:
            raise ValueError(f"base_url is no URL: {one_line(error, 100)}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("base_url must begin with http:// or https:// and name a host")
        if parts.username is not None or parts.query:
            raise ValueError("base_url must hold no user, password or query; api_key_variable names the key's variable")
        # Both encodings of international names are applied later: by the client's library, and before DNS.
        import httpx2

        try:
            httpx2.URL(value).raw_host.decode("ascii").encode("idna")
        except (httpx2.InvalidURL, UnicodeError):
            raise ValueError("base_url names a host that no network can have; check its spelling") from None
        return value.rstrip("/")


def endpoint_name(name: str, settings: EndpointSettings) -> str:
    """Return an endpoint as messages name it: the player, the model and the URL."""
    return one_line(f"{name} ({settings.model} at {settings.base_url})", _SHOWN)


def read_api_key(name: str, settings: EndpointSettings) -> str:
    """Return the key from the environment. Raises ``EndpointRefusedError`` if its variable holds no key."""
    variable = settings.api_key_variable
    key = NO_KEY if variable is None else os.environ.get(variable, "").strip()
    where = endpoint_name(name, settings)
    if not key:
        raise EndpointRefusedError(
            f"{where}: the environment variable {variable}, which should hold its key, is not set; "
            "export it (on every node of a cluster)"
        )
    if not (key.isascii() and key.isprintable()):
        raise EndpointRefusedError(
            f"{where}: the key in the environment variable {variable} has characters that no key has; export it again"
        )
    return key
