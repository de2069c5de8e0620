"""A real Prometheus for tests: the programs, a server on loopback, and queries."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

START_TIMEOUT_S = 600.0
NO_PROMETHEUS = "no Prometheus on this machine (make prometheus)"


def installed(name: str) -> str | None:
    """``prometheus`` or ``promtool`` on the PATH or in the folder of ``make prometheus``."""
    fetched = Path(sys.prefix) / "prometheus" / "usr" / "bin" / name
    return shutil.which(name) or (str(fetched) if fetched.exists() else None)


def program(name: str) -> str:
    """The same; skips the test without one."""
    found = installed(name)
    if found is None:
        pytest.skip(NO_PROMETHEUS)
    return found


class Prometheus:
    """A server that answers queries."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, path: str, **parameters: str | float) -> Any:
        """The ``data`` of an answer of the HTTP API; fails with the server's message."""
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def over(self, expr: str, start: float, end: float, step_s: float = 1.0) -> list[dict[str, Any]]:
        """The series of a range query with at least one numeric value."""
        found = self.ask("query_range", query=expr, start=start, end=end, step=step_s)["result"]
        return [series for series in found if any(value != "NaN" for _, value in series["values"])]

    def up(self, job: str) -> dict[str, bool]:
        """Whether the latest scrape of each target of a job succeeded."""
        targets = self.ask("targets")["activeTargets"]
        return {
            target["labels"]["instance"]: target["health"] == "up"
            for target in targets
            if target["labels"]["job"] == job
        }


@contextmanager
def serving(config: Path, data: Path) -> Iterator[Prometheus]:
    """A Prometheus with this configuration; ends with the block.

    Args:
        config: prometheus.yml.
        data: its folder, made if absent.
    """
    port = _free_port()
    log = data.with_name(f"{data.name}.log")
    with log.open("w") as out:
        process = subprocess.Popen(
            [program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={data}",
             f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=10y", "--log.level=warn"],
            stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    server = Prometheus(port)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _ready(server):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, f"Prometheus not ready in {START_TIMEOUT_S} s: {log.read_text()}"
            time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(300)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(300)


def _ready(server: Prometheus) -> bool:
    try:
        with urllib.request.urlopen(f"{server.url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
