"""The client of an endpoint: its limits, retries, counters and error messages."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from services.inference.chat_endpoint.client import Completion, OpenAIClient, backoff_s, retry_after_s
from services.inference.chat_endpoint.settings import EndpointError, EndpointRefusedError, EndpointSettings
from tests.unit.services.inference.chat_endpoint.endpoint_server import (
    FakeEndpoint,
    Request,
    Script,
    answer,
    refusal,
    serving,
)

HELLO = [{"role": "user", "content": "hello"}]
KEY_VARIABLE = "ENTENTE_TEST_KEY"


def ask(script: Script, use: Callable[[OpenAIClient, FakeEndpoint], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        async with serving(script) as endpoint:
            client = OpenAIClient("remote:test", endpoint.settings(**settings))
            try:
                await use(client, endpoint)
            finally:
                await client.close()

    asyncio.run(run())


def complete(client: OpenAIClient, regex: str | None = None) -> Awaitable[Completion]:
    return client.complete(HELLO, seed=7, regex=regex)  # type: ignore[arg-type]


async def failure(client: OpenAIClient, regex: str | None = None) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        await complete(client, regex)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("remote:test (some-model at http://127.0.0.1:")
    return caught.value


def one_after_another(*answers: web.Response) -> Script:
    waiting = list(answers)
    return lambda _: waiting.pop(0)


def test_requests_have_the_configured_fields_and_are_counted_with_their_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "sk-secret")

    async def use(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        assert await complete(client) == Completion("yes", True, False)
        assert await complete(client) == Completion("", False, False)
        assert endpoint.keys == ["Bearer sk-secret"] * 2
        assert endpoint.requests[0] == {
            "model": "some-model",
            "messages": HELLO,
            "max_tokens": 20,
            "temperature": 0.5,
            "seed": 7,
        }
        counters = client.counters
        assert (counters.calls, counters.prompt_tokens, counters.completion_tokens) == (2, 300, 40)
        assert client.cost == pytest.approx(300 * 2.0 / 1e6 + 40 * 10.0 / 1e6)

    ask(
        one_after_another(
            answer("yes", prompt=100, completion=20), answer(None, finish_reason="length", prompt=200, completion=20)
        ),
        use,
        api_key_variable=KEY_VARIABLE,
        max_completion_length=20,
        temperature=0.5,
        price_per_million_prompt_tokens=2.0,
        price_per_million_completion_tokens=10.0,
    )


def test_without_a_key_variable_no_key_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-server")

    async def use(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        await complete(client)
        assert endpoint.keys == ["Bearer none"]

    ask(lambda _: answer("yes"), use)


def test_a_missing_key_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    settings = EndpointSettings(base_url="http://127.0.0.1:1/v1", model="m", api_key_variable=KEY_VARIABLE)
    with pytest.raises(EndpointRefusedError, match=f"variable {KEY_VARIABLE}, which should hold its key, is not set"):
        OpenAIClient("remote:test", settings)


def test_calls_to_busy_servers_are_retried_up_to_the_limit() -> None:
    async def recovers(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        assert (await complete(client)).text == "yes"
        assert (client.counters.retries, client.counters.calls, client.counters.failures) == (2, 1, 0)

    busy = [refusal(429, "slow down", retry_after="0"), refusal(503, "restarting", retry_after="0.01")]
    ask(one_after_another(*busy, answer("yes")), recovers, max_retries=2)

    async def gives_up(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        text = str(await failure(client))
        assert "HTTP 503: restarting in 3 attempts; look at the server's log" in text
        assert (client.counters.retries, client.counters.calls, client.counters.failures) == (2, 0, 1)
        assert len(endpoint.requests) == 3

    ask(lambda _: refusal(503, "restarting", retry_after="0"), gives_up, max_retries=2)


@pytest.mark.parametrize(
    ("response", "expected", "kind"),
    [
        (refusal(401, "bad key sk-secret"), f"the key is not accepted; check the key in {KEY_VARIABLE}", True),
        (refusal(404, "The model `x` does not exist."), "does not exist; check model and base_url", True),
        (refusal(429, "pay", code="insufficient_quota"), "no quota left", True),
        (refusal(400, "sk-secret is too long\nfor me"), "HTTP 400: *** is too long for me; the server does not", False),
        (refusal(400, "sk-\x1b[1msec\x00ret is odd"), "HTTP 400: *** is odd; the server does not", False),
    ],
)
def test_permanent_errors_are_not_retried(
    response: web.Response, expected: str, kind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "sk-secret")

    async def use(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        error = await failure(client)
        assert expected in str(error)
        assert "sk-secret" not in str(error)
        assert isinstance(error, EndpointRefusedError) == kind
        assert len(endpoint.requests) == 1

    ask(one_after_another(response), use, api_key_variable=KEY_VARIABLE)


def test_backoff_and_retry_after_are_bounded() -> None:
    for attempt, longest in ((0, 0.5), (1, 1.0), (2, 2.0), (10, 8.0), (1000, 8.0)):
        waits = [backoff_s(attempt) for _ in range(50)]
        assert 0.75 * longest <= min(waits) < max(waits) <= longest
    for asked, obeyed in (("3", 3.0), (" 0.5 ", 0.5), ("0", 0.0), ("60.1", 60.0), ("31536000", 60.0), ("1e999", 60.0)):
        assert retry_after_s(asked) == obeyed
    for odd in ("", "-1", "-1e999", "nan", "tomorrow", "Wed, 21 Oct 2065 07:28:00 GMT", "3, 4", "0x10", "\x1b[31m"):
        assert retry_after_s(odd) is None


def test_a_timeout_a_lost_connection_and_a_missing_api_have_different_errors() -> None:
    async def late(request: Request) -> web.Response:
        await asyncio.sleep(1)
        return answer("too late")

    async def times_out(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        assert "no answer within 0.05 s; is the server overloaded?" in str(await failure(client))

    ask(late, times_out, timeout_s=0.05, max_retries=0)

    async def is_a_page(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        assert "no chat completion (Invalid JSON: expected value at line 1 column 1); is base_url right" in str(
            await failure(client)
        )

    ask(lambda _: web.Response(text="<html>", content_type="text/html"), is_a_page, max_retries=0)

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    async def no_server(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        text = str(await failure(client))
        assert "no connection (All connection attempts failed); is the server up" in text

    ask(lambda _: answer(""), no_server, max_retries=0, base_url=f"http://127.0.0.1:{port}/v1")


def test_calls_in_flight_are_limited() -> None:
    async def use(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        answers = await asyncio.gather(*(complete(client) for _ in range(12)))
        assert [got.text for got in answers] == ["yes"] * 12
        assert endpoint.most_at_once == 3

    ask(lambda _: answer("yes"), use, max_in_flight=3)


def masks(request: Request) -> bool:
    return "structured_outputs" in request


def test_masks_are_requested_until_the_server_refuses_or_ignores_them() -> None:
    async def taken(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        assert await complete(client, "yes|no") == Completion("yes", True, True)
        assert endpoint.requests[0]["structured_outputs"] == {"regex": "yes|no"}

    ask(lambda _: answer("yes"), taken)

    async def refused(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        for _ in range(2):
            assert await complete(client, "yes|no") == Completion("I think so", True, False)
        assert [masks(request) for request in endpoint.requests] == [True, False, False]

    def without_masks(request: Request) -> web.Response:
        return refusal(400, "Extra inputs are not permitted") if masks(request) else answer("I think so")

    ask(without_masks, refused)

    async def ignored(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        for _ in range(2):
            assert await complete(client, "yes|no") == Completion("I think so", True, False)
        assert [masks(request) for request in endpoint.requests] == [True, False]

    ask(lambda _: answer("I think so"), ignored)

    async def off(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        assert not (await complete(client, "yes|no")).masked
        assert not masks(endpoint.requests[0])

    ask(lambda _: answer("yes"), off, structured="off")


def test_a_request_refused_for_another_reason_leaves_masks_accepted() -> None:
    def script(request: Request) -> web.Response:
        return refusal(400, "context too long") if len(seen) == 1 else answer("yes")

    seen: list[int] = []

    async def use(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        assert (await complete(client, "yes|no")).masked
        seen.append(1)
        assert "context too long" in str(await failure(client, "yes|no"))
        seen.append(2)
        assert (await complete(client, "yes|no")).masked
        assert [masks(request) for request in endpoint.requests] == [True, True, True]

    ask(script, use)


def test_required_masks_that_the_server_lacks_are_an_error() -> None:
    async def ignored(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        error = await failure(client, "yes|no")
        assert isinstance(error, EndpointRefusedError)
        assert 'ignores structured_outputs; set structured = "auto" or "off"' in str(error)

    ask(lambda _: answer("I think so"), ignored, structured="on")

    async def refused(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        assert "not permitted; the server does not take this request; if it has no structured_outputs" in str(
            await failure(client, "yes|no")
        )
        assert len(endpoint.requests) == 1

    ask(lambda _: refusal(422, "Extra inputs are not permitted"), refused, structured="on")

    async def cut_off(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        assert await complete(client, "yes|no") == Completion("ye", False, True)

    ask(lambda _: answer("ye", finish_reason="length"), cut_off, structured="on")


def test_fields_that_a_server_refuses_are_adapted_once() -> None:
    def particular(request: Request) -> web.Response:
        if "max_tokens" in request:
            return refusal(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        if "seed" in request:
            return refusal(422, "body.seed: extra inputs are not permitted")
        return answer("yes")

    async def use(client: OpenAIClient, endpoint: FakeEndpoint) -> None:
        assert (await complete(client, "yes|no")).masked
        assert (await complete(client, "yes|no")).masked
        assert len(endpoint.requests) == 4
        assert endpoint.requests[-1]["max_completion_tokens"] == 512

    ask(particular, use)
