"""A TCP proxy in front of a server that can lose a reply: the request arrives, the answer does not."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType


class CuttingProxy:
    """Forwards one connection after another; ``lose_reply_to(word)`` cuts the next one whose request holds ``word``."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.cuts = 0
        self._lose: bytes | None = None
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def lose_reply_to(self, word: bytes) -> None:
        self._lose = word

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            server = socket.create_connection(("127.0.0.1", self._port), timeout=10)
            self._sockets += [client, server]
            losing = threading.Event()
            for source, target, is_request in ((client, server, True), (server, client, False)):
                thread = threading.Thread(target=self._pump, args=(source, target, is_request, losing), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pump(self, source: socket.socket, target: socket.socket, is_request: bool, losing: threading.Event) -> None:
        try:
            while data := source.recv(1 << 20):
                if is_request and self._lose is not None and self._lose in data:
                    self._lose = None
                    losing.set()
                if not is_request and losing.is_set():
                    self.cuts += 1
                    break  # the server has answered, so the request was carried out
                target.sendall(data)
        except OSError:
            pass  # the other side is gone
        hang_up(source, target)

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        hang_up(*self._sockets)
        for thread in self._threads[1:]:
            thread.join(5)


def hang_up(*sides: socket.socket) -> None:
    for side in sides:
        with suppress(OSError):  # already gone
            side.shutdown(socket.SHUT_RDWR)  # closing alone does not wake a reading thread
        side.close()
