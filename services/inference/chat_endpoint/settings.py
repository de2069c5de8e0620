"""The settings of an OpenAI-compatible endpoint and its errors; light to import."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from grpo_core.errors import EntenteError, one_line
from grpo_core.section import Settings

_LONGEST_URL = 500


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
