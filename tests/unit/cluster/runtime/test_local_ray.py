"""The start of a run's own Ray: further attempts, what failed ones leave behind, and its token."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import ray
from ray.exceptions import AuthenticationError

import cluster.runtime.local_ray
from cluster.errors import LateError, RunError
from cluster.runtime.local_ray import START_ATTEMPTS, is_trusted, keep_token_private, local_ray

SLEEPER = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]


class FakeRay:
    """``ray.init`` that fails at first, and leaves a process behind each time."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.started: list[psutil.Process] = []

    def init(self, **_: object) -> None:
        self.started.append(psutil.Process(subprocess.Popen(SLEEPER).pid))
        if len(self.started) <= self.failures:
            raise Exception("The current node timed out during startup.\nIt is busy.")

    def running(self) -> list[bool]:
        return [child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in self.started]


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    others = set(psutil.Process().children())
    yield
    for child in set(psutil.Process().children()) - others:
        child.kill()
        child.wait(60)


@pytest.fixture
def notices(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(cluster.runtime.local_ray, "stop_at_signals", lambda: None)
    monkeypatch.setattr(cluster.runtime.local_ray, "AT_ONCE_S", 0.0)  # failures count as slow ones
    return []


def test_a_busy_machine_gets_further_attempts_and_no_process_of_a_failed_one_stays(
    notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeRay(failures=2)
    monkeypatch.setattr(ray, "init", fake.init)
    with local_ray(1, notices.append):
        assert fake.running() == [False, False, True]
    assert [notice.partition(";")[2].partition(" (")[0] for notice in notices] == [
        f" attempt {number} of {START_ATTEMPTS}" for number in (2, 3)
    ]
    assert not any(fake.running())


def test_a_ray_that_never_starts_is_one_line(notices: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(failures=START_ATTEMPTS)
    monkeypatch.setattr(ray, "init", fake.init)
    reason = r"in 8 attempts \(The current node timed out during startup.\)"
    with pytest.raises(LateError, match=reason) as raised, local_ray(1, notices.append):
        pytest.fail("it did not start")
    assert "\n" not in str(raised.value)
    assert len(fake.started) == START_ATTEMPTS
    assert not any(fake.running())


def test_a_start_that_fails_at_once_is_tried_a_few_times_and_says_why(
    notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.runtime.local_ray, "AT_ONCE_S", 60.0)
    fake = FakeRay(failures=START_ATTEMPTS)
    monkeypatch.setattr(ray, "init", fake.init)
    reason = r"\(The current node timed out during startup.\)"
    with pytest.raises(RunError, match=rf"cannot start on this machine {reason}$"), local_ray(1, notices.append):
        pytest.fail("it did not start")
    assert len(fake.started) == 3
    assert notices == [
        f"Ray did not start (The current node timed out during startup.); attempt {number} of {START_ATTEMPTS}"
        for number in (2, 3)
    ]


def test_a_folder_with_too_long_a_name_is_told_at_once(notices: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> None:
        raise OSError("AF_UNIX path length cannot exceed 107 bytes: /long/name")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(RunError, match=r"name a shorter one in RAY_TMPDIR$"), local_ray(1, notices.append):
        pytest.fail("it did not start")
    assert not notices


def test_rays_token_is_made_where_there_are_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    token = tmp_path / ".ray" / "auth_token"
    keep_token_private(token)
    assert token.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in token.parent.iterdir()] == ["auth_token"]


def test_rays_token_is_made_private_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / ".ray" / "auth_token"
    keep_token_private(token)
    made = token.read_text()
    assert len(made) >= 32
    assert token.stat().st_mode & 0o777 == 0o600
    token.chmod(0o644)  # as Ray writes it
    keep_token_private(token)
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.read_text() == made
    token.write_text("")  # as a full disk leaves it
    keep_token_private(token)
    assert len(token.read_text()) >= 32
    assert [path.name for path in token.parent.iterdir()] == ["auth_token"]
    monkeypatch.setattr(cluster.runtime.local_ray, "is_trusted", lambda _: False)
    with pytest.raises(RunError, match="belongs to another user"):
        keep_token_private(token)
    monkeypatch.undo()
    with pytest.raises(RunError, match="cannot protect Ray's token"):
        keep_token_private(token / "below_a_file")


def test_this_user_and_the_administrator_are_trusted_with_the_token() -> None:
    assert [is_trusted(owner) for owner in (0, os.getuid(), os.getuid() + 1)] == [True, True, False]


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/tmp/ray/session"), "free space there .* RAY_TMPDIR"),
        (AuthenticationError("Token authentication is enabled"), "give the same token .* RAY_AUTH_TOKEN"),
    ],
    ids=["disk", "token"],
)
def test_an_error_that_would_come_again_ends_the_start_at_once(
    error: Exception, advice: str, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**_: object) -> None:
        raise error

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(RunError, match=advice) as raised, local_ray(1, notices.append):
        pytest.fail("it did not start")
    assert not isinstance(raised.value, LateError)
    assert notices == []
