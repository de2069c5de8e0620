"""The watch over Ray's services, with a real listening socket in their place."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import pytest

import cluster.runtime.ray_watch
from cluster.errors import ControlServiceLostError, LostError
from cluster.runtime.ray_watch import NOT_SAVED, Answer, ServiceWatch, answer_of, check_ray

LIMIT_S = 60.0
gcs_watch = partial(ServiceWatch, "Ray's control service (GCS)", error=ControlServiceLostError)


@pytest.fixture
def service() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def lost_within_limit(watch: ServiceWatch) -> bool:
    deadline = time.monotonic() + LIMIT_S
    while not watch.lost and time.monotonic() < deadline:
        time.sleep(0.02)
    return watch.lost


def test_a_service_that_ends_is_lost_and_says_so_in_one_line(
    service: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.runtime.ray_watch, "CHECK_EVERY_S", 0.02)
    watch = gcs_watch(address(service), grace_s=0.1)
    try:
        time.sleep(0.2)
        watch.check()
        service.close()
        assert lost_within_limit(watch)
        with pytest.raises(ControlServiceLostError, match=r"control service \(GCS\) at 127.0.0.1:\d+ is gone"):
            watch.check()
    finally:
        watch.close()


def test_each_service_is_named_and_has_its_own_error(service: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.runtime.ray_watch, "CHECK_EVERY_S", 0.02)
    monkeypatch.setattr(cluster.runtime.ray_watch, "HANGING_S", 0.0)
    watch = ServiceWatch("Ray's node manager (raylet)", address(service), grace_s=0.1, end_process=None)
    try:
        service.close()
        assert lost_within_limit(watch)
        time.sleep(0.2)  # several looks, after which another watch would have ended this process
        with pytest.raises(LostError, match=r"node manager \(raylet\) at 127.0.0.1:\d+ is gone") as error:
            watch.check()
        assert type(error.value) is LostError  # no learner is left to save
    finally:
        watch.close()


def test_a_short_silence_is_forgiven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.runtime.ray_watch, "CHECK_EVERY_S", 0.01)
    answers, seen = iter([Answer.REFUSED, Answer.NONE, Answer.ACCEPTED]), threading.Event()

    def connect(_: str) -> Answer:
        try:
            return next(answers)
        except StopIteration:
            seen.set()
            return Answer.ACCEPTED

    watch = gcs_watch("127.0.0.1:1", grace_s=LIMIT_S, connect=connect)
    try:
        assert seen.wait(LIMIT_S)
        watch.check()
        assert not watch.lost
    finally:
        watch.close()


@pytest.mark.parametrize("noticed", [True, False])
def test_a_process_ends_if_its_main_thread_hangs_in_ray(noticed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.runtime.ray_watch, "CHECK_EVERY_S", 0.01)
    monkeypatch.setattr(cluster.runtime.ray_watch, "HANGING_S", LIMIT_S if noticed else 0.0)
    said: list[str] = []
    ended = threading.Event()

    def end_process(message: str) -> None:
        said.append(message)
        ended.set()

    watch = gcs_watch("192.0.2.1:1", 0.0, connect=lambda _: Answer.REFUSED, end_process=end_process)
    try:
        if noticed:
            assert lost_within_limit(watch)
            with pytest.raises(ControlServiceLostError):
                watch.check()
            monkeypatch.setattr(cluster.runtime.ray_watch, "HANGING_S", 0.0)
        assert ended.wait(0.2 if noticed else LIMIT_S) is not noticed
        assert said == (
            []
            if noticed
            else [f"Ray's control service (GCS) at 192.0.2.1:1 is gone, and Ray does not answer; {NOT_SAVED}"]
        )
    finally:
        watch.close()


def test_refusals_after_a_silence_are_a_loss_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.runtime.ray_watch, "CHECK_EVERY_S", 0.001)
    clock, answers, ended, refused = [1000.0], [Answer.NONE] * 25, threading.Event(), threading.Semaphore(0)
    monkeypatch.setattr(cluster.runtime.ray_watch, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def connect(_: str) -> Answer:
        if answers:
            clock[0] += 1.0
            return answers.pop()
        refused.release()
        return Answer.REFUSED

    watch = gcs_watch("192.0.2.1:1", 0.0, connect=connect, end_process=lambda _: ended.set())
    try:
        for _ in range(3):
            assert refused.acquire(timeout=LIMIT_S)
        # No time has passed since, in which the main thread could have looked, however long the silence was.
        assert not ended.is_set()
        with pytest.raises(ControlServiceLostError):
            watch.check()
    finally:
        watch.close()


@pytest.mark.parametrize(
    "before",
    ["os.close(2)", "reads, writes = os.pipe(); os.close(reads); os.dup2(writes, 2)"],
    ids=["closed", "without a reader"],
)
def test_a_process_ends_also_if_its_last_line_cannot_be_written(before: str) -> None:
    script = f"import os; {before}; from cluster.runtime.ray_watch import end_process as end; end('it is gone')"
    assert subprocess.run([sys.executable, "-c", script], timeout=LIMIT_S).returncode == 2


def test_only_a_listening_port_accepts_connections(service: socket.socket) -> None:
    there = address(service)
    assert answer_of(there) is Answer.ACCEPTED
    service.close()
    assert answer_of(there) is Answer.REFUSED


def test_a_network_that_fails_is_forgiven_longer_than_a_process_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.runtime.ray_watch, "CHECK_EVERY_S", 0.01)
    answer, asked = Answer.NONE, threading.Semaphore(0)

    def connect(_: str) -> Answer:
        asked.release()
        return answer

    watch = gcs_watch("192.0.2.1:1", grace_s=0.0, connect=connect)
    try:
        for _ in range(3):
            assert asked.acquire(timeout=LIMIT_S)
        assert not watch.lost
        answer = Answer.REFUSED
        assert lost_within_limit(watch)
    finally:
        watch.close()


def test_a_process_without_free_descriptors_blames_itself(
    service: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_socket(*_: object, **__: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "create_connection", no_socket)
    assert answer_of(address(service)) is Answer.ACCEPTED


def test_without_a_connected_ray_there_is_nothing_to_check() -> None:
    check_ray()
