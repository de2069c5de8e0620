"""Who may ask: the person who opened the printed address, from the server's own page, with small and plain requests.

Other pages in the same browser can send requests to this address too. They are refused, because they do not have the
cookie (SameSite=Strict), name another origin, or reach the server under another host name. A page of this server runs
its own scripts alone and cannot be framed.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any

from starlette.datastructures import Headers, QueryParams
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_REQUEST = 16 * 1024  # bytes of a request's body
LARGEST_GAME = 8 * 1024 * 1024  # of a saved game that is loaded
BODY_TIMEOUT_S = 20.0
LOAD_PATH = "/api/load"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class _RefusalError(Exception):
    """A request that is answered with ``status`` and a line of text."""

    status: int
    text: str


class Guard:
    """Stands before the application: refuses foreign requests, bounds bodies, and adds the headers of each answer."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], port: int, token: str) -> None:
        """Let requests through that name one of ``hosts``, or any literal address and this machine if it is empty."""
        self._app = app
        self._hosts = frozenset(f"{host}:{port}" for host in hosts)
        self._port = port
        self._token = token
        self._cookie = f"entente_{port}"  # cookies are shared by all ports of a host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *own]
            await send(message)

        try:
            answer = self._checked(scope)
            if answer is not None:
                await answer(scope, receive, send_guarded)
                return
            if scope["method"] == "POST":
                receive = await _whole_body(scope, receive)
        except _RefusalError as refusal:
            await PlainTextResponse(refusal.text, refusal.status)(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)

    def _checked(self, scope: Scope) -> Response | None:
        """Refuse a foreign request; return the answer to the printed address, which sets the cookie."""
        headers = Headers(scope=scope)
        path: str = scope["path"]
        raw: bytes = scope.get("raw_path") or path.encode()
        if raw.decode("latin-1") != path or ".." in path or "//" in path or "\\" in path or not path.isprintable():
            raise _RefusalError(404, "there is no such page")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            raise _RefusalError(405, "only GET and POST are answered")
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            raise _RefusalError(421, "this server is not called so; open the address that the command printed")
        self._check_origin(headers, scope["method"], hosts[0])
        given = QueryParams(scope["query_string"]).getlist("token")
        if given and path == "/" and scope["method"] == "GET":
            if not self._is_token(given[0]):
                raise _RefusalError(403, "this is not the server's token; open the address that the command printed")
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", max_age=30 * 24 * 3600)
            return answer
        if not self._is_token(self._cookie_of(headers)):
            raise _RefusalError(403, "open the address that the command printed: it has the token that this page needs")
        if scope["method"] == "POST":
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise _RefusalError(415, "requests are JSON")
        return None

    def _check_origin(self, headers: Headers, method: str, host: str) -> None:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if site not in (None, "same-origin", "none"):
            raise _RefusalError(403, "requests of other pages are not answered")
        if origin is None:
            if method == "POST":
                raise _RefusalError(403, "a request that changes something names its origin")
        elif origin != f"http://{host}":
            raise _RefusalError(403, "requests of other pages are not answered")

    def _is_own(self, host: str) -> bool:
        if self._hosts:
            return host in self._hosts
        name, _, port = host.rpartition(":")
        if port != str(self._port):
            return False
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return name in ("localhost", socket.gethostname(), socket.getfqdn())
        return True

    def _cookie_of(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode("utf-8", "replace"), self._token.encode())


async def _whole_body(scope: Scope, receive: Receive) -> Receive:
    """Read a request's body within the limits of size and time, and return a ``receive`` that gives it at once."""
    limit = LARGEST_GAME if scope["path"] == LOAD_PATH else LARGEST_REQUEST
    stated = Headers(scope=scope).get("content-length", "0")
    if not stated.isdigit() or len(stated) > 12 or int(stated) > limit:
        raise _RefusalError(413, f"at most {limit} bytes are read")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _RefusalError(400, "the request ended early")
                body += message.get("body", b"")
                if len(body) > limit:
                    raise _RefusalError(413, f"at most {limit} bytes are read")
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        raise _RefusalError(408, f"the request did not arrive within {BODY_TIMEOUT_S:.0f} s") from None
    given: Any = {"type": "http.request", "body": bytes(body), "more_body": False}
    sent = False

    async def receive_whole() -> Message:
        nonlocal sent
        if not sent:
            sent = True
            return dict(given)
        return await receive()

    return receive_whole
