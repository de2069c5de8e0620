"""A replay server that a run does not start itself: it may be away, and come back with its data at the same address."""

from __future__ import annotations

import os
import secrets
import signal
from pathlib import Path

from services.replay.server.embedded import EmbeddedServer


class ExternalServer:
    """A server on loopback with a fixed address; a context manager, which ends it."""

    def __init__(self, folder: Path) -> None:
        """Start the server with its data in ``folder``."""
        self._folder = folder
        self._password = secrets.token_hex(16)
        self._server = EmbeddedServer.start(folder, password=self._password)
        self.url = self._server.url

    def __enter__(self) -> ExternalServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def kill(self) -> None:
        """End it, as the kernel does when memory runs out."""
        os.kill(self._server.pid, signal.SIGKILL)
        self._server.close()

    def start_again(self) -> None:
        """Start it again where it was, with its data."""
        self._server = EmbeddedServer.start(self._folder, port=self._server.port, password=self._password)

    def stop(self) -> None:
        """Let it accept connections, and answer nothing."""
        os.kill(self._server.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it answer again, also what was asked meanwhile."""
        os.kill(self._server.pid, signal.SIGCONT)
