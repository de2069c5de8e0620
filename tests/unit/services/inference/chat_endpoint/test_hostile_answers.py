"""Answers of endpoints are not trusted: each hostile one is a failure with one line, counted, under ``on_failure``."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import tracemalloc
import zlib
from collections.abc import Iterator

import pytest

from tests.unit.services.inference.chat_endpoint.hostile_endpoint import (
    GOOD,
    HostileEndpoint,
    Raw,
    choice,
    completion,
    http,
)

ESCAPES = "\x1b]0;owned\x07\x1b[31mred\x1b[0m\x9b2J\u202e"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ERROR = json.dumps({"error": {"message": ESCAPES + "m" * 5000, "code": ESCAPES}})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[HostileEndpoint]:
    with HostileEndpoint(max_answer_kib=64) as running:
        yield running


@pytest.fixture(scope="module")
def hurried() -> Iterator[HostileEndpoint]:
    with HostileEndpoint(timeout_s=0.1, max_answer_kib=64) as running:
        yield running


def deep(opening: str, depth: int = 30_000) -> str:
    return opening * depth


NO_COMPLETION = {
    "an empty body": b"",
    "a body of spaces": b" " * 1000,
    "half a JSON": completion().encode()[:80],
    "a page": b"<html><body>Welcome</body></html>",
    "bytes that are no UTF-8": b'{"choices": "\xff\xfe\xc3"}',
    "UTF-16": completion().encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + completion().encode(),
    "zeros": b"\0" * 1000,
    "a JSON null": b"null",
    "a JSON number": b"1e999",
    "a JSON string": b'"choices"',
    "a JSON list": b"[1, 2, 3]",
    "an empty object": b"{}",
    "two objects": completion().encode() * 2,
    "nested lists": deep("[").encode(),
    "nested objects": deep('{"choices":', 5000).encode(),
    "nested lists in a choice": b'{"choices": [' + deep("[").encode() + deep("]").encode() + b"]}",
    "choices null": completion(choices=None),
    "no choices": completion(choices=[]),
    "choices an object": completion(choices={"0": {}}),
    "choices a string": completion(choices="A PAR H"),
    "an empty choice": completion(choices=[{}]),
    "a choice null": completion(choices=[None]),
    "a choice a list": completion(choices=[[]]),
    "message null": choice(message=None),
    "message a string": choice(message="A PAR H"),
    "message a list": choice(message=[GOOD]),
    "content a number": choice(message={"content": 7}),
    "content true": choice(message={"content": True}),
    "content an object": choice(message={"content": {"text": GOOD}}),
    "content a list of parts": choice(message={"content": [{"type": "text", "text": GOOD}]}),
    "finish_reason a number": choice(finish_reason=7),
    "finish_reason a list": choice(finish_reason=["stop"]),
    "a number of 10,000 digits": completion(usage=None).replace("null", "9" * 10_000),
    "an error with status 200": ERROR,
    "an error that is a string": json.dumps({"error": ESCAPES * 100}),
    "an error that is a list": json.dumps({"error": [ESCAPES]}),
}

BROKEN = {
    "no bytes": b"",
    "no HTTP": b"220 mail.example ESMTP\r\n" * 50,
    "escape codes for a status line": ESCAPES.encode() * 50 + b"\r\n\r\n",
    "HTTP/0.9": b"<html>hello</html>",
    "HTTP/3.0": b"HTTP/3.0 200 OK\r\n\r\n{}",
    "a record of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "status 99": b"HTTP/1.1 099 Low\r\n\r\n",
    "status -1": b"HTTP/1.1 -1 Low\r\n\r\n",
    "status 101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n" + bytes(100),
    "status 204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "only status 100": b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
    "a header without a name": b"HTTP/1.1 200 OK\r\n: x\r\n\r\n{}",
    "a header with escape codes": f"HTTP/1.1 200 OK\r\nX: {ESCAPES[:-1]}\r\n\r\n{{}}".encode("latin-1"),
    "a header of a megabyte": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n{}",
    "too many headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000 + b"\r\n{}",
    "two lengths": http(completion(), "Content-Length: 3"),
    "a negative length": http(completion(), length=-1),
    "a length of many digits": http(completion(), length=10**30),
    "a body that breaks off": http(completion(), length=10_000),
    "a chunk size that is no number": CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n",
    "a chunk longer than said": CHUNKED + b"2\r\n{}}}}}\r\n0\r\n\r\n",
    "chunks that break off": CHUNKED + b"ffffff\r\n" + completion().encode(),
    "an endless chunk size": CHUNKED + b"0" * 1_000_000,
    "an unknown transfer encoding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.0 without a body": b"HTTP/1.0 200 OK\r\n\r\n",
    "compressed": http(gzip.compress(completion().encode()), "Content-Encoding: gzip"),
    "compressed and cut off": http(gzip.compress(completion().encode())[:40], "Content-Encoding: gzip"),
    "compressed, it says": http(completion(), "Content-Encoding: deflate"),
    "compressed with escape codes": http(completion(), f"Content-Encoding: {ESCAPES[:-1]}" + "x" * 3000),
    "status 500 with escape codes": http(ERROR, status=f"500 {ESCAPES[:4]}"),
    "status 500 that is compressed": http(zlib.compress(ERROR.encode()), "Content-Encoding: deflate", status="500 x"),
    "status 500 that is nested": http(deep("["), status="500 x"),
    "status 500 of a megabyte": http("e" * 1_000_000, status="500 x"),
    "status 500 with odd fields": http('{"error": {"message": {"a": 1}, "code": [1]}}', status="500 x"),
    "status 400 with escape codes": http(ERROR, status="400 Bad"),
    "status 400 that is not UTF-8": http(b"\xff\x1b[31m\xfe" * 100, status="400 Bad"),
    "status 599": http("{}", status="599 x"),
    "status 999": http("{}", status="999 x"),
    "a redirect to another host": http("", "Location: http://127.0.0.2:1/v1", status="302 Found"),
    "a redirect of another kind": http("", "Location: file:///etc/passwd", status="307 Moved"),
    "a redirect with escape codes": http("", f"Location: http://{ESCAPES[:-1]}/", status="308 Moved"),
    "a redirect to nowhere": http("", status="301 Moved"),
    "a cookie with escape codes": http("{}", f"Set-Cookie: {ESCAPES[:-1]}=1; expires=never; domain=."),
}  # fmt: skip


def failed_as_it_should(endpoint: HostileEndpoint, raw: Raw) -> str:
    """The one line of the failure, under both ways of ``on_failure``."""
    raised, held = endpoint.decide(raw), endpoint.decide(raw, on_failure="hold")
    assert raised.error is not None
    text = str(raised.error)
    assert len(text) <= 500
    assert text.isprintable()
    assert text.startswith("remote:test (some-model at http://127.0.0.1:")
    assert held.error is None
    assert held.decision is not None
    assert held.decision.actions == ()
    failed = {"decisions": 1, "failures": 1}
    for outcome, expected in ((raised, failed), (held, failed | {"held": 1})):
        assert {name: value for name, value in outcome.counted.items() if value} == expected
    return text


@pytest.mark.parametrize("name", NO_COMPLETION)
def test_a_body_that_is_no_chat_completion_is_a_failure(endpoint: HostileEndpoint, name: str) -> None:
    body = NO_COMPLETION[name]
    text = failed_as_it_should(endpoint, http(body))
    expected = "HTTP 200 with an error: " if "an error" in name else "its answer is no chat completion ("
    assert expected in text


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_that_breaks_http_is_a_failure(endpoint: HostileEndpoint, name: str) -> None:
    failed_as_it_should(endpoint, BROKEN[name])


def test_the_errors_say_what_was_wrong(endpoint: HostileEndpoint) -> None:
    for raw, expected in (
        (http(completion(choices=[{}])), r"no chat completion \(choices.0.message: .*\); is base_url right"),
        (http("<html>"), r"no chat completion \(.*JSON.*\); is base_url right"),
        (BROKEN["compressed"], "compressed .gzip., which was not requested; "),
        (BROKEN["a redirect to another host"], "HTTP 302 redirects to http://127.0.0.2:1/v1.*; set base_url to"),
        (http(ERROR), r"HTTP 200 with an error: redm+ \.\.\. m+; look at the server's log"),
        (BROKEN["no bytes"], "its answer breaks off or is no HTTP .Server disconnected without sending a response"),
        (http(b"x" * 65537), r"longer than 64 KiB; .*max_answer_kib"),
    ):
        assert re.search(expected, failed_as_it_should(endpoint, raw))


def test_a_key_in_an_answer_that_is_no_http_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENTENTE_TEST_KEY", "sk-secret")
    with HostileEndpoint(api_key_variable="ENTENTE_TEST_KEY") as endpoint:
        text = failed_as_it_should(endpoint, b"you sent sk-secret\r\n\r\n")
    assert "you sent ***" in text


def endless(start: bytes, piece: bytes, pause_s: float = 0.0) -> Raw:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return write


@pytest.mark.parametrize("on", ["its body", "one chunk after another", "small chunks"])
def test_an_endless_answer_ends_at_the_limit_of_its_size(endpoint: HostileEndpoint, on: str) -> None:
    ways = {
        "its body": endless(b"HTTP/1.1 200 OK\r\n\r\n", b"\0" * 65536),
        "one chunk after another": endless(CHUNKED, b"10000\r\n" + b"\0" * 65536 + b"\r\n"),
        "small chunks": endless(CHUNKED, b"40\r\n" + b" " * 64 + b"\r\n"),
    }
    assert "longer than 64 KiB" in failed_as_it_should(endpoint, ways[on])


@pytest.mark.parametrize("on", ["nothing", "the status", "the headers", "the body", "chunks", "status 100", "an error"])
def test_an_answer_in_drips_ends_at_the_time_limit(hurried: HostileEndpoint, on: str) -> None:
    ways = {
        "nothing": endless(b"", b"", 0.02),
        "the status": endless(b"HTTP/1.1 2", b"0", 0.02),
        "the headers": endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", 0.02),
        "the body": endless(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", b" ", 0.02),
        "chunks": endless(CHUNKED, b"1\r\n \r\n", 0.02),
        "status 100": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        "an error": endless(b"HTTP/1.1 500 x\r\nContent-Length: 60000\r\n\r\n", b" ", 0.02),
    }
    assert "no answer within 0.1 s; " in failed_as_it_should(hurried, ways[on])


def test_answers_take_no_more_memory_than_their_limit(endpoint: HostileEndpoint) -> None:
    zeros = b"\0" * (16 << 20)
    bombs = [http(gzip.compress(zeros), "Content-Encoding: gzip"), http(zlib.compress(zeros), "Content-Encoding: br")]
    bombs.append(http(gzip.compress(zeros), "Content-Encoding: gzip", status="500 x"))
    del zeros
    for bomb in bombs:
        tracemalloc.start()
        try:
            failed_as_it_should(endpoint, bomb)
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()


def test_a_redirect_is_not_followed_and_cookies_are_not_kept(endpoint: HostileEndpoint) -> None:
    asked = len(endpoint.requests)
    here = f"http://127.0.0.1:{endpoint.port}/v1/chat/completions"
    failed_as_it_should(endpoint, http("", f"Location: {here}", "Set-Cookie: a=b", status="307 Moved"))
    failed_as_it_should(endpoint, http("{}", "Set-Cookie: a=b; Path=/"))
    failed_as_it_should(endpoint, http("{}"))
    assert len(endpoint.requests) == asked + 6
    assert not any(b"\r\ncookie:" in request.lower() for request in endpoint.requests)


GOOD_ANSWERS = {
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\n" + completion().encode(),
    "chunks": CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (len(completion()), completion().encode()),
    "another content type": http(completion()).replace(b"application/json", b"text/plain; charset=utf-16"),
    "status 100 first": b"HTTP/1.1 100 Continue\r\n\r\n" + http(completion()),
    "an odd finish_reason": http(choice(finish_reason="eos\x1b[31m")),
    "unknown fields": http(completion(x=[[[[1]]]], model=ESCAPES, id=7, system_fingerprint={"a": 1})),
    "identity": http(completion(), "Content-Encoding: Identity"),
}


@pytest.mark.parametrize("name", GOOD_ANSWERS)
def test_unusual_answers_that_can_be_read_are_played(endpoint: HostileEndpoint, name: str) -> None:
    outcome = endpoint.decide(GOOD_ANSWERS[name])
    assert outcome.decision is not None
    assert outcome.decision.actions == tuple(GOOD.splitlines())
    assert outcome.counted["calls"] == 1
    assert (outcome.counted["prompt_tokens"], outcome.counted["completion_tokens"]) == (100, 10)
    assert outcome.counted["usage_unknown"] == 0
