"""Atomic durable writes: old or new content after a crash, no draft left, folder flushed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from grpo_core.checkpoints.atomic_write import write_atomically
from grpo_core.errors import StorageError


class _Crash(BaseException):
    """Stands for the end of the process."""


def _crash(*_: object, **__: object) -> None:
    raise _Crash


def test_write_replaces_content_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for content in (b"old", b"newer"):
        write_atomically(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("os.fsync", b"old"),
        ("pathlib.Path.replace", b"old"),
        ("grpo_core.checkpoints.atomic_write.flush_to_disk", b"new"),
    ],
)
def test_a_crash_keeps_the_old_content_before_the_rename_and_the_new_content_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, expected: bytes
) -> None:
    path = tmp_path / "state.json"
    write_atomically(path, b"old")
    monkeypatch.setattr(step, _crash)
    with pytest.raises(_Crash):
        write_atomically(path, b"new")
    assert path.read_bytes() == expected
    assert list(tmp_path.iterdir()) == [path]


def test_file_is_flushed_before_the_rename_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.json"
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def record_flush(descriptor: int) -> None:
        steps.append("flush folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "flush file")
        fsync(descriptor)

    def record_rename(draft: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(draft, target)

    monkeypatch.setattr("os.fsync", record_flush)
    monkeypatch.setattr(Path, "replace", record_rename)
    write_atomically(path, b"content")
    assert steps == ["flush file", "rename", "flush folder"]


def test_mode_is_that_of_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "secret.toml"
    path.write_bytes(b"readable by all")
    write_atomically(path, b"password", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_missing_folder_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"none/state\.json: there is no folder for it; make the folder"):
        write_atomically(tmp_path / "none" / "state.json", b"content")
    assert list(tmp_path.iterdir()) == []


def test_nothing_but_a_file_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "folder").mkdir()
    for name, reason in (("fifo", "it is a FIFO"), ("null", "it is a device"), ("folder", "a folder has its name")):
        with pytest.raises(StorageError, match=reason):
            write_atomically(tmp_path / name, b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "folder", "null"]
