"""A Hugging Face Hub on loopback that serves folders as models, as far as fetching a snapshot needs it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubServer(ThreadingHTTPServer):
    """Serves ``models`` (id -> folder) and lists the files that were fetched."""

    def __init__(self, models: dict[str, Path], status: int = 404) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.models = models
        self.status = status  # for unknown models
        self.fetched: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: HubServer

    def do_HEAD(self) -> None:
        self._file(send=False)

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            self._api(parts[2:])
        else:
            self._file(send=True)

    def log_message(self, *_: object) -> None:
        pass

    def _api(self, parts: list[str]) -> None:
        model = "/".join(parts[:2])
        folder = self.server.models.get(model)
        if folder is not None and not {*parts[2:]} & {"main", COMMIT}:
            self._answer(404, b'{"error": "Invalid rev id"}', {"X-Error-Code": "RevisionNotFound"})
            return
        if folder is None:
            code = {404: "RepoNotFound", 403: "GatedRepo"}.get(self.server.status, "")
            self._answer(self.server.status, b'{"error": "no"}', {"X-Error-Code": code})
            return
        files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        if "tree" in parts:
            found = [
                {"type": "file", "path": str(path), "size": (folder / path).stat().st_size, "oid": _sum(folder / path)}
                for path in files
            ]
            self._answer(200, json.dumps(found).encode())
            return
        info = {"id": model, "sha": COMMIT, "siblings": [{"rfilename": str(path)} for path in files]}
        self._answer(200, json.dumps(info).encode())

    def _file(self, *, send: bool) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        folder = self.server.models.get("/".join(parts[:2]))
        path = None if folder is None else folder / "/".join(parts[4:])
        if path is None or not path.is_file():
            self._answer(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        headers = {"ETag": f'"{_sum(path)}"', "X-Repo-Commit": COMMIT}
        if send:
            self.server.fetched.append(path.name)
        self._answer(200, path.read_bytes(), headers, body=send)

    def _answer(self, status: int, data: bytes, headers: dict[str, str] | None = None, *, body: bool = True) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)


def _sum(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()


@contextmanager
def hub(models: dict[str, Path], status: int = 404) -> Iterator[HubServer]:
    server = HubServer(models, status)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
