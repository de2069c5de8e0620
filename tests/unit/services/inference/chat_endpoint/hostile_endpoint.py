"""A server on loopback that answers with any bytes, and a chat player that has to live with them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from opponents.players.chat_policy import ChatPolicy
from opponents.settings import ChatPlayerSettings
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Decision
from services.inference.chat_endpoint.settings import EndpointError

# What is written after a request; the connection is closed afterwards. A callable may write as it likes.
Raw = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]

GOOD = "A MAR - SPA\nA PAR - BUR\nF BRE - MAO"


@dataclass(frozen=True)
class Outcome:
    """What a decision came to: its error under ``raise``, or else its orders, and what it added to the counters."""

    error: EndpointError | None
    decision: Decision | None
    counted: dict[str, float]


class HostileEndpoint:
    """One server and one player (France in the opening) in an event loop of their own, for many answers."""

    def __init__(self, **settings: Any) -> None:
        self._runner = asyncio.Runner()
        self._settings = settings
        self._raw: Raw = b""
        self._answering: set[asyncio.Task[None]] = set()
        self.requests: list[bytes] = []  # header and body of each
        self.position = DiplomacyGame(1901).position

    def __enter__(self) -> Self:
        self._runner.run(self._start())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._runner.run(self._stop())
        finally:
            self._runner.close()

    def decide(self, raw: Raw, *, on_failure: str = "raise") -> Outcome:
        """Let the player decide once while the server answers every request with ``raw``."""
        return self._runner.run(self._decide(raw, on_failure))

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        known = {"base_url": f"http://127.0.0.1:{self.port}/v1", "model": "some-model", "max_retries": 0}
        settings = {**known, "timeout_s": 120.0, "structured": "off", **self._settings}
        self._policies = {
            name: ChatPolicy("test", ChatPlayerSettings(on_failure=name, **settings), Diplomacy.language)
            for name in ("raise", "hold")
        }

    async def _stop(self) -> None:
        for policy in self._policies.values():
            await policy.close()
        self._server.close()
        await self._hang_up()

    async def _decide(self, raw: Raw, on_failure: str) -> Outcome:
        self._raw, policy = raw, self._policies[on_failure]
        before, decision, failure = policy.stats(), None, None
        try:
            decision = await policy.act(self.position, "FRANCE", 11)
        except EndpointError as error:
            failure = error
        await self._hang_up()
        after = policy.stats()
        return Outcome(failure, decision, {name: after[name] - before[name] for name in after})

    async def _hang_up(self) -> None:
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            self.requests.append(head + await reader.readexactly(int(length.split(b":")[1])))
            if isinstance(self._raw, bytes):
                writer.write(self._raw)
                await writer.drain()
            else:
                await self._raw(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the player has seen enough, or the decision is made
        finally:
            self._answering.discard(task)
            writer.close()


def http(body: bytes | str, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """An answer with its length (or ``length``) and the usual content type."""
    body = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    size = len(body) if length is None else length
    head = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {size}", *headers]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body


def completion(**changes: Any) -> str:
    """The JSON of a good answer with other fields at its top, e.g. ``choices`` or ``usage``."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": GOOD}}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage, **changes})


def choice(**changes: Any) -> str:
    """The JSON of an answer whose only choice has other fields, e.g. ``message`` or ``finish_reason``."""
    message = {"role": "assistant", "content": GOOD}
    return completion(choices=[{"index": 0, "finish_reason": "stop", "message": message, **changes}])
