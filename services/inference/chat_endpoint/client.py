"""A client of one OpenAI-compatible endpoint: chat completions with limits, retries and counters."""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import openai
from openai.types.chat import ChatCompletion

from services.inference.chat_endpoint.settings import EndpointError, EndpointRefusedError, EndpointSettings

NO_KEY = "none"  # the library requires a key, and would otherwise send that of OPENAI_API_KEY to this server
_TEXT_SHOWN = 200  # characters of a server's own explanation
_INVALID_REQUEST = (openai.BadRequestError, openai.UnprocessableEntityError)
_TRANSIENT = (408, 409, 425, 429)  # the server is busy, or the call was lost on the way
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 8.0  # before a retry, doubled each time
_LONGEST_RETRY_AFTER_S = 60.0  # a longer Retry-After is shortened to this


class Message(TypedDict):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer of the model."""

    text: str
    finished: bool  # False: cut off at max_completion_length
    masked: bool  # under the regular expression of the call


@dataclass(slots=True)
class EndpointCounters:
    """Sums since the client was made."""

    calls: int = 0  # answered
    retries: int = 0  # attempts beyond a call's first
    failures: int = 0  # calls without an answer
    prompt_tokens: int = 0
    completion_tokens: int = 0


class OpenAIClient:
    """One endpoint. It belongs to the event loop that first used it."""

    def __init__(self, name: str, settings: EndpointSettings) -> None:
        """Open no connection yet. Raises ``EndpointRefusedError`` if the key's variable is not set."""
        self._settings = settings
        self._where = f"{name} ({settings.model} at {settings.base_url})"
        variable = settings.api_key_variable
        self._key = NO_KEY if variable is None else os.environ.get(variable, "").strip()
        if not self._key:
            raise EndpointRefusedError(
                f"{self._where}: the environment variable {variable}, which should hold its key, is not set; "
                "export it (on every node of a cluster)"
            )
        # Retries are made here: they are counted, and each attempt has a limit in wall time.
        self._client = openai.AsyncOpenAI(
            base_url=settings.base_url, api_key=self._key, timeout=settings.timeout_s, max_retries=0
        )
        self._in_flight = asyncio.Semaphore(settings.max_in_flight)
        # What this server accepts, as far as its answers have shown.
        self._accepts_masks: bool | None = False if settings.structured == "off" else None
        self._accepts_seeds = True
        self._limit_name = "max_tokens"
        self.counters = EndpointCounters()

    @property
    def cost(self) -> float:
        """Cost of all tokens so far, in the currency of the configured prices."""
        settings, counters = self._settings, self.counters
        return (
            counters.prompt_tokens * settings.price_per_million_prompt_tokens
            + counters.completion_tokens * settings.price_per_million_completion_tokens
        ) / 1e6

    async def complete(self, messages: Sequence[Message], *, seed: int, regex: str | None = None) -> Completion:
        """Make one call and wait for the answer; calls beyond ``max_in_flight`` queue.

        The sampling ``seed`` is >= 0 and left out for servers that do not accept one. The whole answer should match
        ``regex``, where the server has structured outputs. Raises ``EndpointRefusedError`` if the key is not accepted,
        the model is unknown or the server lacks required masks, else ``EndpointError`` if there is no answer.
        """
        async with self._in_flight:
            try:
                answer, masked = await self._answer(messages, seed, regex)
            except EndpointError:
                self.counters.failures += 1
                raise
        choice = answer.choices[0]
        text = choice.message.content or ""
        self.counters.calls += 1
        if answer.usage is not None:
            self.counters.prompt_tokens += answer.usage.prompt_tokens or 0
            self.counters.completion_tokens += answer.usage.completion_tokens or 0
        if masked and choice.finish_reason == "stop":
            assert regex is not None
            masked = re.fullmatch(regex, text.strip()) is not None  # some servers ignore unknown fields
            if not masked and self._settings.structured == "on":
                raise EndpointRefusedError(
                    f'{self._where} ignores structured_outputs; set structured = "auto" or "off" for free text'
                )
            self._accepts_masks = masked
        return Completion(text, choice.finish_reason != "length", masked)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _answer(self, messages: Sequence[Message], seed: int, regex: str | None) -> tuple[ChatCompletion, bool]:
        """Return the answer and whether it was requested under the mask; leaves out what the server does not accept."""
        masked = regex is not None and self._accepts_masks is not False
        on_trial = masked and self._accepts_masks is None and self._settings.structured == "auto"
        while True:
            request = self._request(messages, seed, regex if masked else None)
            try:
                answer = await self._call_with_retries(request)
            except _INVALID_REQUEST as error:
                if self._adapted(request, str(error)):
                    continue
                if not (masked and on_trial):
                    raise self._refusal(error, masked) from None
                masked = False  # the mask may be what the server refuses
            else:
                if on_trial and not masked:
                    self._accepts_masks = False
                return answer, masked

    def _request(self, messages: Sequence[Message], seed: int, regex: str | None) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self._settings.model,
            "messages": list(messages),
            self._limit_name: self._settings.max_completion_length,
        }
        if self._settings.temperature is not None:
            request["temperature"] = self._settings.temperature
        if self._accepts_seeds:
            request["seed"] = seed % 2**31  # some servers read 32 bits
        if regex is not None:
            request["extra_body"] = {"structured_outputs": {"regex": regex}}
        return request

    def _adapted(self, request: dict[str, Any], reason: str) -> bool:
        """Leave out or rename the field that ``reason`` names, once per field; False: there is no such field."""
        if "max_tokens" in request and "max_completion_tokens" in reason:
            self._limit_name = "max_completion_tokens"
        elif "seed" in request and re.search(r"\bseed\b", reason):
            self._accepts_seeds = False
        else:
            return False
        return True

    async def _call_with_retries(self, request: dict[str, Any]) -> ChatCompletion:
        """Return the first answer of up to ``max_retries`` + 1 attempts; other errors raise at once."""
        attempts = self._settings.max_retries + 1
        for attempt in range(attempts):
            wait = None
            try:
                async with asyncio.timeout(self._settings.timeout_s):
                    answer = await self._client.chat.completions.create(**request)
                # A wrong path may answer with a page, and a proxy may report an error with status 200.
                if isinstance(answer, ChatCompletion) and answer.choices:
                    return answer
                failure, advice = "its answer is no chat completion", "is base_url right (it mostly ends in /v1)?"
            except (TimeoutError, openai.APITimeoutError):
                failure = f"no answer within {self._settings.timeout_s:g} s"
                advice = "is the server overloaded? timeout_s allows more time, max_in_flight fewer calls at once"
            except openai.APIConnectionError as error:
                failure = f"no connection ({error.__cause__ or error})"
                advice = "is the server up, and base_url right?"
            except openai.APIStatusError as error:
                status = error.status_code
                if error.code == "insufficient_quota" or (status not in _TRANSIENT and status < 500):
                    if isinstance(error, _INVALID_REQUEST):
                        raise
                    raise self._refusal(error, "extra_body" in request) from None
                failure, wait = f"HTTP {status}: {self._explanation(error)}", retry_after_s(error)
                advice = "wait, or lower max_in_flight" if status == 429 else "look at the server's log"
            if attempt + 1 < attempts:
                self.counters.retries += 1
                await asyncio.sleep(backoff_s(attempt) if wait is None else wait)
        tried = "" if attempts == 1 else f" in {attempts} attempts"
        raise EndpointError(f"{self._where}: {failure}{tried}; {advice}")

    def _refusal(self, error: openai.APIStatusError, masked: bool) -> EndpointError:
        status = error.status_code
        if status in (401, 403):
            # The server's message is left out: it may quote the key.
            variable = self._settings.api_key_variable
            remedy = (
                f"check the key in {variable}" if variable else "set api_key_variable to the name of the key's variable"
            )
            return EndpointRefusedError(f"{self._where}: HTTP {status}: the key is not accepted; {remedy}")
        shown = f"{self._where}: HTTP {status}: {self._explanation(error)}"
        if status == 404:
            return EndpointRefusedError(f"{shown}; check model and base_url (it mostly ends in /v1)")
        if status == 429:
            return EndpointRefusedError(f"{shown}; the account has no quota left")
        hint = '; if it has no structured_outputs, set structured = "auto"' if masked else ""
        return EndpointError(f"{shown}; the server does not take this request{hint}")

    def _explanation(self, error: openai.APIStatusError) -> str:
        """Return the server's message in one short line, without the key."""
        body = error.body
        text = str(body.get("message") or body) if isinstance(body, dict) else str(body or error.message)
        line = " ".join(text.split()).rstrip(".")
        if self._key != NO_KEY:
            line = line.replace(self._key, "***")
        return line if len(line) <= _TEXT_SHOWN else f"{line[:_TEXT_SHOWN]}..."


def retry_after_s(error: openai.APIStatusError) -> float | None:
    """Return the Retry-After in seconds, in [0, 60]; None if it is no number of seconds."""
    try:
        wait = float(error.response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return min(wait, _LONGEST_RETRY_AFTER_S) if wait >= 0 else None


def backoff_s(attempt: int) -> float:
    """Return the seconds to wait after attempt 0, 1, ...: doubled each time, with jitter that spreads the callers."""
    return min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0**attempt) * random.uniform(0.75, 1.0)
