"""Files that processes share: one writer at a time, and a crash leaves the old content or the new."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from grpo_core.checkpoints.atomic_write import write_atomically
from opponents.population.member import PopulationError

_POLL_S = 0.005


@contextmanager
def locked(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock of ``path`` while the block runs; it does not nest, not even within one thread.

    It is a file beside ``path``, which the system frees however its holder ends.

    Raises:
        PopulationError: somebody else held it for all of ``timeout_s`` seconds (says who), or the folder cannot be
            written.
    """
    lock = path.with_name(f".{path.name}.lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("a+")
    except OSError as error:
        raise PopulationError(f"cannot change {path}: {lock} cannot be written: {error.strerror}") from error
    with file:
        _wait(file, path, timeout_s)
        try:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # also where a child process has inherited the open file


def _wait(file: IO[str], path: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                file.seek(0)
                holder = file.read().strip() or "another process"
                raise PopulationError(
                    f"{path} has been held by {holder} for {timeout_s:g} s, where a change takes a moment: let that "
                    "process go on or end it, then try again"
                ) from None
            time.sleep(_POLL_S)
        else:
            return


Document = TypeVar("Document", bound=msgspec.Struct)


class _SchemaOnly(msgspec.Struct):
    schema: int


def write_document(path: Path, document: msgspec.Struct) -> None:
    """Write it, indented for human readers; a crash leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def read_document(path: Path, kind: type[Document], schema: int) -> Document | None:
    """The document of a file; None where there is no file.

    Raises:
        PopulationError: it is damaged, has fields that nobody knows, or another schema.
    """
    try:
        text = path.read_bytes()
        found: Any = msgspec.json.decode(text, type=_SchemaOnly).schema
        if found != schema:
            raise PopulationError(f"{path} has schema {found}; this version reads {schema}")
        return msgspec.json.decode(text, type=kind)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # a ValidationError is one too
        raise PopulationError(f"{path} is damaged ({error}); remove it to go on without what it remembers") from error
