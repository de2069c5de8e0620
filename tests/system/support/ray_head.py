"""A real Ray head for one test: its own ports, folder and token; ended by process id."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

RAY = str(Path(sys.executable).with_name("ray"))
START_TIMEOUT_S = 600
END_TIMEOUT_S = 120


def free_ports(count: int) -> list[int]:
    """Different free ports of loopback."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


class RayHead:
    """``ray start --head`` with two CPUs; leaving the block ends it and all its processes."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ray-"))  # short, because names of Unix sockets are limited
        gcs, dashboard, client, agent = free_ports(4)
        # Ray's own ports are on loopback too, because 127.0.0.1 is given as this machine's address.
        self.address = f"http://127.0.0.1:{dashboard}"
        self._token = secrets.token_hex(16)
        inherited = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        self.environment = {
            **inherited,
            **variables,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self._token,
        }
        command = [
            RAY, "start", "--head", "--block", "--disable-usage-stats", f"--temp-dir={self.folder}", "--num-cpus=2",
            f"--object-store-memory={256 << 20}", "--node-ip-address=127.0.0.2", f"--port={gcs}",
            "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}", f"--ray-client-server-port={client}",
            f"--dashboard-agent-listen-port={agent}",
        ]  # fmt: skip
        self._log = self.folder / "start.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        self._family: dict[int, psutil.Process] = {}

    def __enter__(self) -> RayHead:
        deadline = time.monotonic() + START_TIMEOUT_S
        try:
            while "Ray runtime started" not in self._log.read_text():
                assert self._process.poll() is None, self._log.read_text()
                assert time.monotonic() < deadline, self._log.read_text()
                time.sleep(0.1)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.family()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_TIMEOUT_S)
        left = self.family()
        for process in left:
            process.kill()
        psutil.wait_procs(left, timeout=END_TIMEOUT_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def family(self) -> list[psutil.Process]:
        """The running processes that descend from the head."""
        try:
            for child in psutil.Process(self._process.pid).children(recursive=True):
                self._family[child.pid] = child
        except psutil.NoSuchProcess:
            pass
        return [p for p in self._family.values() if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]

    def submit(self, name: str, working_dir: Path, entrypoint: Sequence[str]) -> subprocess.Popen[str]:
        """``ray job submit``, which shows the job's log until it ends."""
        command = [RAY, "job", "submit", "--address", self.address, "--submission-id", name, "--log-style=record"]
        return subprocess.Popen(
            [*command, "--working-dir", str(working_dir), "--", *entrypoint],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def request(self, method: str, path: str) -> Any:
        """One call of the head's HTTP interface, which ``ray job`` uses."""
        request = urllib.request.Request(
            f"{self.address}{path}", method=method, headers={"Authorization": f"Bearer {self._token}"}
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)

    def status(self, name: str) -> str:
        """A job's status; "" while the head has no job of this name."""
        try:
            return str(self.request("GET", f"/api/jobs/{name}")["status"])
        except urllib.error.HTTPError:
            return ""

    def log(self, name: str) -> str:
        """The output of a job's driver."""
        return (self.folder / "session_latest" / "logs" / f"job-driver-{name}.log").read_text()
