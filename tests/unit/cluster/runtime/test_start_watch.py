"""The watch over a start of Ray, with a real process in the place of its control service."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import cluster.runtime.start_watch
from cluster.runtime.start_watch import start_watched

LIMIT_S = 60.0
Start = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def start_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a process that has the name of Ray's control service."""
    monkeypatch.setattr(cluster.runtime.start_watch, "CHECK_EVERY_S", 0.01)
    program = tmp_path / "gcs_server"
    shutil.copy(str(shutil.which("sleep")), program)
    with ExitStack() as stack:

        def start() -> subprocess.Popen[bytes]:
            process = stack.enter_context(subprocess.Popen([program, "600"]))
            stack.callback(process.kill)
            return process

        yield start


class Looks:
    """Counts how often the watch has looked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seen = threading.Semaphore(0)
        look = cluster.runtime.start_watch._control_services

        def counted() -> set[int]:
            found = look()
            self._seen.release()
            return found

        monkeypatch.setattr(cluster.runtime.start_watch, "_control_services", counted)

    def wait(self, count: int) -> None:
        """Until it has looked so often from now on, the look under way included."""
        while self._seen.acquire(blocking=False):
            pass
        for _ in range(count):
            assert self._seen.acquire(timeout=LIMIT_S)


def test_a_service_that_ends_while_ray_starts_ends_the_process_with_one_line(
    start_service: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, ended, said = Looks(monkeypatch), threading.Event(), []

    def end(message: str) -> None:
        said.append(message)
        ended.set()

    with start_watched(end, hanging_s=0.0):
        service = start_service()
        looks.wait(3)
        assert not ended.is_set()
        service.kill()
        assert ended.wait(LIMIT_S)
    (line,) = said
    assert line.startswith("Ray's control service (GCS) ended while Ray started")
    assert "\n" not in line


def test_a_start_that_fails_by_itself_or_finds_another_service_is_left_alone(
    start_service: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, said = Looks(monkeypatch), []
    with start_watched(said.append, hanging_s=LIMIT_S):
        looks.wait(3)
        first = start_service()
        looks.wait(3)
        first.kill()
        looks.wait(3)
        start_service()
        looks.wait(3)
    assert not said
    earlier = start_service()
    with start_watched(said.append, hanging_s=0.0):
        looks.wait(3)
        earlier.kill()  # another attempt's, which this one does not need
        looks.wait(3)
    assert not said
