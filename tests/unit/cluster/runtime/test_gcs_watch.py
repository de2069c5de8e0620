"""The watch over Ray's control service, with a real listening socket in its place."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

import cluster.runtime.gcs_watch
from cluster.errors import ControlServiceLostError
from cluster.runtime.gcs_watch import ControlServiceWatch, accepts_connections, check_control_service

LIMIT_S = 60.0


@pytest.fixture
def service() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def lost_within_limit(watch: ControlServiceWatch) -> bool:
    deadline = time.monotonic() + LIMIT_S
    while not watch.lost and time.monotonic() < deadline:
        time.sleep(0.02)
    return watch.lost


def test_a_service_that_ends_is_lost_and_says_so_in_one_line(
    service: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.runtime.gcs_watch, "CHECK_EVERY_S", 0.02)
    watch = ControlServiceWatch(address(service), grace_s=0.1)
    try:
        time.sleep(0.2)
        watch.check()
        service.close()
        assert lost_within_limit(watch)
        with pytest.raises(ControlServiceLostError, match=r"control service \(GCS\) at 127.0.0.1:\d+ is gone"):
            watch.check()
    finally:
        watch.close()


def test_a_short_silence_is_forgiven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.runtime.gcs_watch, "CHECK_EVERY_S", 0.01)
    answers, seen = iter([False, False, True]), threading.Event()

    def connect(_: str) -> bool:
        try:
            return next(answers)
        except StopIteration:
            seen.set()
            return True

    watch = ControlServiceWatch("127.0.0.1:1", grace_s=LIMIT_S, connect=connect)
    try:
        assert seen.wait(LIMIT_S)
        watch.check()
        assert not watch.lost
    finally:
        watch.close()


@pytest.mark.parametrize("noticed", [True, False])
def test_a_process_ends_if_its_main_thread_hangs_in_ray(noticed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.runtime.gcs_watch, "CHECK_EVERY_S", 0.01)
    monkeypatch.setattr(cluster.runtime.gcs_watch, "HANGING_S", LIMIT_S if noticed else 0.0)
    said: list[str] = []
    ended = threading.Event()

    def end_process(message: str) -> None:
        said.append(message)
        ended.set()

    watch = ControlServiceWatch("192.0.2.1:1", 0.0, connect=lambda _: False, end_process=end_process)
    try:
        if noticed:
            assert lost_within_limit(watch)
            with pytest.raises(ControlServiceLostError):
                watch.check()
            monkeypatch.setattr(cluster.runtime.gcs_watch, "HANGING_S", 0.0)
        assert ended.wait(0.2 if noticed else LIMIT_S) is not noticed
        assert said == ([] if noticed else ["Ray's control service (GCS) at 192.0.2.1:1 is gone"])
    finally:
        watch.close()


def test_only_a_listening_port_accepts_connections(service: socket.socket) -> None:
    there = address(service)
    assert accepts_connections(there)
    service.close()
    assert not accepts_connections(there)


def test_without_a_connected_ray_there_is_nothing_to_check() -> None:
    check_control_service()
