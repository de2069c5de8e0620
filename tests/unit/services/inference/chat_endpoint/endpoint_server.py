"""A small OpenAI-compatible server on loopback, in the test's own event loop; a script gives its answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from opponents.settings import ChatPlayerSettings

Request = dict[str, Any]
Script = Callable[[Request], web.Response | Awaitable[web.Response]]


class FakeEndpoint:
    """Keeps every request; ``most_at_once`` is the largest number in flight together."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.requests: list[Request] = []
        self.keys: list[str] = []
        self.most_at_once = self._now = 0
        self.url = ""

    def settings(self, **changes: Any) -> ChatPlayerSettings:
        return ChatPlayerSettings(**{"base_url": self.url, "model": "some-model", "timeout_s": 5.0, **changes})

    async def handle(self, http: web.Request) -> web.Response:
        body: Request = await http.json()
        self.requests.append(body)
        self.keys.append(http.headers.get("Authorization", ""))
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            await asyncio.sleep(0.005)  # so that calls overlap
            answer = self._script(body)
            return answer if isinstance(answer, web.Response) else await answer
        finally:
            self._now -= 1


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[FakeEndpoint]:
    endpoint = FakeEndpoint(script)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", endpoint.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        endpoint.url = f"http://127.0.0.1:{port}/v1"
        yield endpoint
    finally:
        await runner.cleanup()


def answer(text: str | None, *, finish_reason: str = "stop", prompt: int = 100, completion: int = 10) -> web.Response:
    return web.json_response(
        {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "some-model",
            "choices": [
                {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "content": text}}
            ],
            "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion},
        }
    )


def refusal(status: int, message: str, *, code: str | None = None, retry_after: str | None = None) -> web.Response:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return web.json_response({"error": {"message": message, "code": code}}, status=status, headers=headers)
