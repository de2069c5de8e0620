"""A client of one OpenAI-compatible endpoint: chat completions with limits, retries and counters."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

from grpo_core.errors import one_line
from services.inference.chat_endpoint.answers import (
    READ_CHARACTERS,
    Answer,
    InvalidAnswerError,
    Refusal,
    read_answer,
    read_error,
)
from services.inference.chat_endpoint.bounded_http import CALL_ERRORS, SETUP_ERRORS, BoundedHttp, Reply
from services.inference.chat_endpoint.settings import (
    NO_KEY,
    EndpointError,
    EndpointRefusedError,
    EndpointSettings,
    endpoint_name,
    read_api_key,
)
from services.inference.messages import Message

_SHOWN = 200  # characters of a server's own text in a message
_SEE_LOG = "look at the server's log"
_INVALID_REQUEST = (400, 422)
_TRANSIENT = (408, 409, 425, 429)  # the server is busy, or the call was lost on the way
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 8.0  # before a retry, doubled each time
_LONGEST_RETRY_AFTER_S = 60.0  # a longer Retry-After is shortened to this


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
    usage_unknown: int = 0  # answers without plausible numbers of tokens; what is missing counts 0


class OpenAIClient:
    """One endpoint. It belongs to the event loop that first used it."""

    def __init__(self, name: str, settings: EndpointSettings) -> None:
        """Open no connection yet. Raises ``EndpointRefusedError`` if the key's variable holds no key."""
        self._settings = settings
        self._where = endpoint_name(name, settings)
        self._key = read_api_key(name, settings)
        url, limit = f"{settings.base_url}/chat/completions", settings.max_answer_kib << 10
        try:
            self._http = BoundedHttp(url, self._key, limit, settings.max_in_flight)
        except SETUP_ERRORS as error:
            raise EndpointRefusedError(
                f"{self._where}: the system's proxy or certificates cannot be used ({self._shown(error)}); check "
                "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE"
            ) from None
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
        try:
            async with self._in_flight:
                answer, masked = await self._answer(messages, seed, regex)
            self._count_usage(answer)
            if masked and answer.finish_reason == "stop":
                assert regex is not None
                masked = self._accepts_masks = self._is_masked(answer, regex)
        except EndpointError:
            self.counters.failures += 1
            raise
        self.counters.calls += 1
        return Completion(answer.text, answer.finish_reason != "length", masked)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    def _count_usage(self, answer: Answer) -> None:
        prompt, completion = answer.prompt_tokens, answer.completion_tokens
        self.counters.usage_unknown += prompt is None or completion is None
        self.counters.prompt_tokens += prompt or 0
        self.counters.completion_tokens += completion or 0

    def _is_masked(self, answer: Answer, regex: str) -> bool:
        """Whether a whole answer matches its mask; some servers ignore unknown fields."""
        if re.fullmatch(regex, answer.text.strip()) is not None:
            return True
        if self._settings.structured == "on":
            raise EndpointRefusedError(
                f'{self._where} ignores structured_outputs; set structured = "auto" or "off" for free text'
            )
        return False

    async def _answer(self, messages: Sequence[Message], seed: int, regex: str | None) -> tuple[Answer, bool]:
        """Return the answer and whether it was requested under the mask; leaves out what the server does not accept."""
        masked = regex is not None and self._accepts_masks is not False
        on_trial = masked and self._accepts_masks is None and self._settings.structured == "auto"
        while True:
            request = self._request(messages, seed, regex if masked else None)
            answer = await self._call_with_retries(request)
            if isinstance(answer, Answer):
                if on_trial and not masked:
                    self._accepts_masks = False
                return answer, masked
            if not self._adapted(request, answer.explanation):
                if not (masked and on_trial):
                    raise self._error(answer, masked)
                masked = False  # the mask may be what the server refuses

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
            request["structured_outputs"] = {"regex": regex}
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

    async def _call_with_retries(self, request: dict[str, Any]) -> Answer | Refusal:
        """Return the first answer of up to ``max_retries`` + 1 attempts, or the refusal of this request (400, 422).

        Other errors that another attempt would not change are raised at once.
        """
        attempts = self._settings.max_retries + 1
        for attempt in range(attempts):
            wait = None
            try:
                async with asyncio.timeout(self._settings.timeout_s):
                    reply = await self._http.post(request)
            except TimeoutError:
                failure = f"no answer within {self._settings.timeout_s:g} s"
                advice = "is the server overloaded? timeout_s allows more time, max_in_flight fewer calls at once"
            except (httpx2.ConnectError, httpx2.ProxyError) as error:
                failure = f"no connection ({self._shown(error)})"
                advice = "is the server up, and base_url right?"
            except CALL_ERRORS as error:
                failure = f"its answer breaks off or is no HTTP ({self._shown(error)})"
                advice = f"is base_url right? If so, {_SEE_LOG}"
            else:
                outcome = self._outcome(reply, "structured_outputs" in request)
                if not isinstance(outcome, tuple):
                    return outcome
                failure, advice = outcome
                wait = retry_after_s(reply.retry_after)
            if attempt + 1 < attempts:
                self.counters.retries += 1
                await asyncio.sleep(backoff_s(attempt) if wait is None else wait)
        tried = "" if attempts == 1 else f" in {attempts} attempts"
        raise EndpointError(f"{self._where}: {failure}{tried}; {advice}")

    def _outcome(self, reply: Reply, masked: bool) -> Answer | Refusal | tuple[str, str]:
        """Return the answer, the refusal of the request, or a failure that may pass, with advice; raises the others."""
        if 200 <= reply.status < 300:
            return self._completion(reply)
        refusal = read_error(reply.status, b"" if reply.compression else reply.body)
        assert refusal is not None
        if refusal.code == "insufficient_quota" or not (reply.status in _TRANSIENT or reply.status >= 500):
            if reply.status in _INVALID_REQUEST:
                return refusal
            raise self._error(refusal, masked, reply.location)
        advice = "wait, or lower max_in_flight" if reply.status == 429 else _SEE_LOG
        return f"HTTP {reply.status}: {self._shown(refusal.explanation)}", advice

    def _completion(self, reply: Reply) -> Answer | tuple[str, str]:
        if reply.compression:
            failure = f"its answer is compressed ({self._shown(reply.compression)}), which was not requested"
            return failure, "let the server, or a proxy before it, answer as Accept-Encoding: identity asks"
        if reply.cut:
            limit = self._settings.max_answer_kib
            return f"its answer is longer than {limit} KiB", "is base_url right? max_answer_kib allows longer ones"
        try:
            return read_answer(reply.body)
        except InvalidAnswerError as error:
            # A wrong path may answer with a page, and a proxy may report an error with status 200.
            refusal = read_error(reply.status, reply.body)
            if refusal is not None:
                return f"HTTP {reply.status} with an error: {self._shown(refusal.explanation)}", _SEE_LOG
            failure = f"its answer is no chat completion ({self._shown(error)})"
            return failure, "is base_url right (it mostly ends in /v1)?"

    def _error(self, refusal: Refusal, masked: bool, location: str = "") -> EndpointError:
        status = refusal.status
        if status in (401, 403):
            # The server's message is left out: it may quote the key.
            variable = self._settings.api_key_variable
            remedy = (
                f"check the key in {variable}" if variable else "set api_key_variable to the name of the key's variable"
            )
            return EndpointRefusedError(f"{self._where}: HTTP {status}: the key is not accepted; {remedy}")
        if 300 <= status < 400:
            target = f" to {self._shown(location)}" if location else ""
            return EndpointError(
                f"{self._where}: HTTP {status} redirects{target}; set base_url to the final address, since a key is "
                "sent nowhere else"
            )
        shown = f"{self._where}: HTTP {status}: {self._shown(refusal.explanation)}"
        if status == 404:
            return EndpointRefusedError(f"{shown}; check model and base_url (it mostly ends in /v1)")
        if status == 429:
            return EndpointRefusedError(f"{shown}; the account has no quota left")
        hint = '; if it has no structured_outputs, set structured = "auto"' if masked else ""
        return EndpointError(f"{shown}; the server does not take this request{hint}")

    def _shown(self, text: object) -> str:
        """Return a server's text, or an exception that may quote it, in one short line without the key."""
        line = one_line(text, READ_CHARACTERS)  # an escape code in the key would hide it from the next line
        return one_line(line if self._key == NO_KEY else line.replace(self._key, "***"), _SHOWN) or "no explanation"


def retry_after_s(value: str) -> float | None:
    """Return the seconds that a header's Retry-After asks for, in [0, 60]; None if it is no number of seconds."""
    try:
        wait = float(value)
    except ValueError:
        return None
    return min(wait, _LONGEST_RETRY_AFTER_S) if wait >= 0 else None


def backoff_s(attempt: int) -> float:
    """Return the seconds to wait after attempt 0, 1, ...: doubled each time, with jitter that spreads the callers."""
    return min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0**attempt) * random.uniform(0.75, 1.0)
