"""What the guard lets through, beyond the requests that the system tests send."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import unquote

import pytest

from cluster.play_server.command import is_loopback
from cluster.play_server.security import LARGEST_GAME, LARGEST_REQUEST, LOAD_PATH, Guard

TOKEN = "t" * 43
Messages = list[dict[str, Any]]


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the length of the body."""
    body = (await receive())["body"] if scope["method"] == "POST" else b""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(len(body)).encode()})


def ask(
    method: str = "POST",
    path: str = "/api/lines",
    *,
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost"),
    chunks: tuple[bytes, ...] = (b"{}",),
    **changed: str | None,
) -> tuple[int, bytes, dict[bytes, bytes]]:
    headers: dict[str, str | None] = {
        "host": "127.0.0.1:80",
        "origin": "http://127.0.0.1:80",
        "cookie": f"other=1; entente_80={TOKEN}",
        "content-type": "application/json; charset=utf-8",
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items() if value is not None],
    }
    waiting = list(chunks)
    sent: Messages = []

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.sleep(3600)
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def send(message: Any) -> None:
        sent.append(message)

    guard = Guard(application, hosts=hosts, port=80, token=TOKEN)
    asyncio.run(guard(scope, receive, send))
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:]), dict(sent[0]["headers"])


def test_a_request_of_the_page_passes_and_its_answer_is_confined() -> None:
    status, body, headers = ask(chunks=(b"{", b"}"))
    assert (status, body) == (200, b"2")
    assert headers[b"x-frame-options"] == b"DENY"
    assert b"default-src 'none'" in headers[b"content-security-policy"]
    assert ask("GET", origin=None)[0] == 200


def test_a_body_without_a_stated_length_is_counted() -> None:
    assert ask(chunks=(b"x" * LARGEST_REQUEST,))[0] == 200
    assert ask(chunks=(b"x" * LARGEST_REQUEST, b"y"))[0] == 413
    assert ask(path=LOAD_PATH, chunks=(b"x" * (LARGEST_REQUEST + 1),))[0] == 200
    assert ask(path=LOAD_PATH, chunks=(b"x" * LARGEST_GAME, b"y"))[0] == 413
    assert ask(content_length="-1")[0] == 413
    assert ask(content_length="1e3")[0] == 413


def test_a_body_that_does_not_arrive_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.play_server.security.BODY_TIMEOUT_S", 0.01)
    assert ask(chunks=())[0] == 408


@pytest.mark.parametrize("cookie", ["", "entente_80", f"entente_81={TOKEN}", f"entente_80={TOKEN[:-1]}", "=;=\x00"])
def test_another_cookie_is_none(cookie: str) -> None:
    assert ask(cookie=cookie)[0] == 403


@pytest.mark.parametrize("path", ["/a/../b", "/a//b", "/a\\b", "/%2e%2e/b", "/\u0000", "/a\r\nb"])
def test_odd_paths_lead_nowhere(path: str) -> None:
    assert ask("GET", path, origin=None)[0] == 404


def test_hosts_of_a_server_for_the_network() -> None:
    own = {"hosts": ("192.168.1.5",), "host": "192.168.1.5:80", "origin": "http://192.168.1.5:80"}
    assert ask(**own)[0] == 200  # type: ignore[arg-type]
    assert ask(host="127.0.0.1:80", hosts=("192.168.1.5",))[0] == 421
    for host in ("10.0.0.1:80", "localhost:80", "[::1]:80"):
        assert ask(hosts=(), host=host, origin=f"http://{host}")[0] == 200
    for host in ("evil.example:80", "10.0.0.1:81", "10.0.0.1"):
        assert ask(hosts=(), host=host, origin=f"http://{host}")[0] == 421


def test_which_addresses_are_loopback() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "192.168.1.5", "example.org", "")] == [False] * 5
