"""``entente play --web`` from outside: a process, its address and its folder; and a small policy to play against."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cluster.actors.initial_policy import make_policy
from cluster.configs.loader import load_config
from grpo_core.models.pretrained import save_model
from tests.system.support.training_process import END_S, ENTENTE, PATIENCE_S, handle_stop_signals


def write_small_policy(folder: Path) -> Path:
    """A policy with random weights, as a folder that ``--player`` takes."""
    config = load_config("smoke", ["policy.hidden_size=32", "policy.layers=1", "policy.intermediate_size=32"])
    save_model(*make_policy(config.policy, 3, config.world.language), folder)
    return folder


class PlayServer:
    """A server process; leaving the block ends it."""

    def __init__(self, games_dir: Path, *arguments: str, port: int = 0) -> None:
        self.games_dir = games_dir
        self.port = port
        self.token = ""
        self._arguments = arguments
        self._log = games_dir.with_name(f"{games_dir.name}.{time.monotonic_ns()}.log")
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PlayServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def address(self) -> str:
        """The address that was printed."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def start(self) -> None:
        """Start it, at the same port if it has had one, and wait for its address."""
        options = ("--web", "--no-browser", "--port", str(self.port), "--games-dir", str(self.games_dir))
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [*ENTENTE, "play", *options, *self._arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=handle_stop_signals,
            )
        end = time.monotonic() + PATIENCE_S
        while "token=" not in self.said() or "\n" not in self.said():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < end, "no address was printed"
            time.sleep(0.05)
        address = urlsplit(self.said().split()[0])
        assert address.port is not None
        self.port, self.token = address.port, address.query.removeprefix("token=")

    def said(self) -> str:
        """What the process has printed."""
        return self._log.read_text()

    def kill(self) -> None:
        """Kill it, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(END_S)

    def interrupt(self) -> int:
        """End it as Ctrl-C does; returns its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(END_S)

    @property
    def cookie(self) -> str:
        """The cookie that the page has."""
        return f"entente_{self.port}={self.token}"

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str | None] | None = None
    ) -> tuple[int, bytes]:
        """Send what the page would send; ``headers`` replace its own, None leaves one out. Returns status and body."""
        own: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "Cookie": self.cookie,
            "Origin": f"http://127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            "Content-Length": None if body is None else str(len(body)),
        }
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {**own, **(headers or {})}.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders()
            if body is not None:
                with suppress(BrokenPipeError, ConnectionResetError):  # it may be refused before the body is read
                    connection.send(body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def state(self) -> dict[str, Any]:
        """All files of its folder, by name."""
        return {path.name: path.read_bytes() for path in sorted(self.games_dir.iterdir())}
