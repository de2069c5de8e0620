"""One POST to a server that is not trusted: bounded in bytes, without redirects, cookies or compression.

Time is bounded by the caller, who cancels. The library's own reading of answers decompresses and keeps whatever comes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx2

# What a call raises without an answer. A TLS error is an OSError; a host that DNS cannot take is a ValueError.
CALL_ERRORS = (httpx2.HTTPError, OSError, ValueError)
# What making a client raises when the system's proxy or certificates are wrong; SOCKS needs a package.
SETUP_ERRORS = (httpx2.InvalidURL, ValueError, OSError, ImportError)


@dataclass(frozen=True, slots=True)
class Reply:
    """A server's answer; every text in it is the server's."""

    status: int  # 100 to 999
    body: bytes  # at most the limit
    cut: bool  # the body was longer than the limit; its rest was not read
    compression: str  # empty: none
    location: str  # of a redirect
    retry_after: str


class BoundedHttp:
    """Posts JSON to one URL; belongs to the event loop that first used it."""

    def __init__(self, url: str, key: str, max_bytes: int, connections: int) -> None:
        """Open no connection yet. ``key`` is sent with each request, as printable ASCII; proxies are the system's.

        Raises one of SETUP_ERRORS if the system's proxy or certificates cannot be used.
        """
        _check_proxy_ports()
        self._url = url
        self._max_bytes = max_bytes
        self._client = httpx2.AsyncClient(
            headers={
                "Authorization": f"Bearer {key}",
                "Content-Type": "application/json",
                "Accept": "application/json",
                "Accept-Encoding": "identity",  # a few compressed bytes may hold gigabytes
                "User-Agent": "entente",
            },
            cookies=_NoCookies(),
            follow_redirects=False,  # the key and the prompts are for this server alone
            limits=httpx2.Limits(max_connections=connections),
            timeout=None,
        )

    async def post(self, request: Mapping[str, Any]) -> Reply:
        """Send ``request`` as JSON and read the answer up to the limit. Raises one of CALL_ERRORS without one."""
        async with self._client.stream("POST", self._url, content=json.dumps(request).encode()) as response:
            body = bytearray()
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > self._max_bytes:
                    break
            headers = response.headers
            compression = headers.get("content-encoding", "").strip().lower()
            return Reply(
                status=response.status_code,
                body=bytes(body[: self._max_bytes]),
                cut=len(body) > self._max_bytes,
                compression="" if compression == "identity" else compression,
                location=headers.get("location", ""),
                retry_after=headers.get("retry-after", ""),
            )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _check_proxy_ports() -> None:
    """Raise ValueError for a proxy's port that no network has; the library raises an error of its own at each call."""
    proxies = getproxies()
    for scheme in ("http", "https", "all"):
        proxy = proxies.get(scheme, "")
        _ = urlsplit(proxy if "://" in proxy else f"//{proxy}").port  # read when it is asked for


class _NoCookies(CookieJar):
    """Reads and keeps no cookie: an endless number of them would be kept, and sent with each request."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        """Leave the cookies of an answer alone."""
