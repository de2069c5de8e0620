"""Runs the server until it is interrupted: opens the port, prints the address, and ends cleanly."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from cluster.errors import RunError
from cluster.play_server.app import make_app
from cluster.play_server.players import Players
from cluster.play_server.seats import Source
from cluster.play_server.security import Guard
from cluster.play_server.storage import GamesFolder
from cluster.play_server.table import Table
from cluster.runtime.stop_signals import handlers_restored, stop_at_signals
from opponents.players.chat_players import ChatPlayers

MOST_CONNECTIONS = 100
ENDING_TIMEOUT_S = 3
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says."""

    host: str
    port: int  # 0: any free one
    games_dir: Path
    seats: Mapping[str, str]
    until: str
    seed: int
    open_browser: bool
    begin: bool  # whether a game of ``seats`` begins at once, if there is none yet


def serve(settings: Settings, sources: Mapping[str, Source], remotes: ChatPlayers, say: Callable[[str], None]) -> None:
    """Serve until a signal ends it, which raises KeyboardInterrupt.

    ``say`` prints a line; the first one with an address has the page's. Raises RunError if the port is taken or another
    server uses the folder, StorageError if that cannot be written.
    """
    folder = GamesFolder(settings.games_dir)
    with folder.held(), _listening(settings.host, settings.port) as listener, handlers_restored():
        stop_at_signals()
        try:
            asyncio.run(_serve(settings, folder, Players(sources, remotes), listener, say))
        finally:
            gc.freeze()  # a search for garbage in all that torch loads would take seconds at the very end


async def _serve(
    settings: Settings, folder: GamesFolder, players: Players, listener: socket.socket, say: Callable[[str], None]
) -> None:
    port = listener.getsockname()[1]
    defaults: dict[str, Any] = {"seats": settings.seats, "until": settings.until, "seed": settings.seed}
    table = Table(folder, players, settings.seats)
    token = folder.token()
    guard = Guard(make_app(table, defaults), hosts=_names(settings.host), port=port, token=token)
    server = _Server(
        uvicorn.Config(
            guard,
            http="h11",
            ws="none",
            lifespan="off",
            log_level="critical",
            access_log=False,
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=ENDING_TIMEOUT_S,
        ),
        table,
    )
    if settings.begin and not table.lines:
        await table.begin(settings.seats, seed=settings.seed, until=settings.until)
    if table.lines:
        table.wake(max(table.lines))
    players.open_ahead()
    address = f"http://{_shown(settings.host)}:{port}/?token={token}"
    say(address)
    say(f"games are saved in {settings.games_dir}; Ctrl-C ends the server, and the same command goes on")
    for problem in table.problems:
        say(f"left as it is: {problem}")
    if settings.open_browser and _has_display():
        webbrowser.open(address)
    try:
        await server.serve(sockets=[listener])
    finally:
        await table.close()


class _Server(uvicorn.Server):
    """Ends the pages' streams before it waits for open connections."""

    def __init__(self, config: uvicorn.Config, table: Table) -> None:
        super().__init__(config)
        self._table = table

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._table.close()
        await super().shutdown(sockets)


def _listening(host: str, port: int) -> socket.socket:
    listener = None
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(MOST_CONNECTIONS)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise RunError(f"cannot listen on {host}:{port}: {error.strerror or error}; name another --port") from error
    return listener


def _names(host: str) -> tuple[str, ...]:
    """The host names by which the server may be asked; none for a server that listens on all addresses."""
    if host in _LOOPBACK or host == "::1":
        return _LOOPBACK
    return () if host in ("0.0.0.0", "::") else (_shown(host),)  # noqa: S104 -- the user asked for it


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _has_display() -> bool:
    """Whether a browser can open a window; a text browser would take the terminal."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
