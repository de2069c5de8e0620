"""Writes that the file system refuses: one line that names the file and says what to do, and the old file stays."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from grpo_core.checkpoints.atomic_write import storage_error_in, write_atomically, writing
from grpo_core.errors import CheckpointError, StorageError


@contextmanager
def longest_file(size: int) -> Iterator[None]:
    """The kernel refuses this process files of more than ``size`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_write_beyond_the_limit_keeps_the_old_file_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    write_atomically(path, b"old")
    with longest_file(100), pytest.raises(StorageError) as raised:
        write_atomically(path, b"x" * 1000)
    assert str(raised.value) == (
        f"cannot write {path}: the file would be longer than the system allows; "
        "raise the limit on file sizes (ulimit -f)"
    )
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_of_safetensors_has_the_systems_reason(tmp_path: Path) -> None:
    with longest_file(100), pytest.raises(StorageError, match="x: the file would be longer"), writing(tmp_path / "x"):
        save_file({"weights": torch.zeros(1000)}, tmp_path / "x")


def test_a_full_disk_is_named() -> None:
    with (
        pytest.raises(StorageError, match="cannot write /dev/full: the disk is full; free space there"),
        writing(Path("/dev/full")),
        open("/dev/full", "wb", buffering=0) as file,
    ):
        file.write(b"content")


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "the disk is full; free space there"),
        (errno.EDQUOT, "the disk quota is used up; free space there or raise the quota"),
        (errno.EROFS, "the file system is read-only; make it writable"),
        (errno.EACCES, "permission denied; make it writable for this user"),
        (errno.EIO, "the disk fails (input/output error); look at the disk"),
        (errno.ENXIO, "No such device or address; see to that"),
    ],
)
def test_each_reason_comes_with_what_to_do(number: int, message: str) -> None:
    with pytest.raises(StorageError) as raised, writing(Path("runs/a/summary.json")):
        raise OSError(number, "as the system says", "/somewhere/.draft")
    assert str(raised.value) == f"cannot write runs/a/summary.json: {message}"
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("error", [CheckpointError("a pickle"), KeyError("a bug"), StorageError("cannot write it")])
def test_other_errors_pass(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, writing(Path("x")):
        raise error
    assert raised.value is error


def test_the_log_of_another_program_tells_why_it_could_not_write() -> None:
    full = "1:M 10 Nov # Error writing to the AOF file: No space left on device\n1:M # Exiting...\n"
    assert str(storage_error_in(Path("redis"), full)) == "cannot write redis: the disk is full; free space there"
    assert storage_error_in(Path("redis"), "1:M # Out Of Memory allocating\n") is None
    limited = "1:M # Server can't set maximum open files to 10032 because of OS error: Operation not permitted.\n"
    assert storage_error_in(Path("redis"), f"{limited}1:M # Bad file format reading the append only file\n") is None
