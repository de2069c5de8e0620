"""Atomic writes that survive a crash, and errors that say why a file cannot be written."""

from __future__ import annotations

import errno
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from grpo_core.errors import EntenteError, StorageError, one_line
from grpo_core.files import ANY_SIZE, check_regular

OLD_DRAFT_S = 3600.0  # no write takes this long
# What is wrong, and what to do about it.
_REASONS = {
    errno.ENOSPC: ("the disk is full", "free space there"),
    errno.EDQUOT: ("the disk quota is used up", "free space there or raise the quota"),
    errno.EFBIG: ("the file would be longer than the system allows", "raise the limit on file sizes (ulimit -f)"),
    errno.EROFS: ("the file system is read-only", "make it writable"),
    errno.EACCES: ("permission denied", "make it writable for this user"),
    errno.EPERM: ("permission denied", "make it writable for this user"),
    errno.EIO: ("the disk fails (input/output error)", "look at the disk"),
    errno.ENOENT: ("there is no folder for it", "make the folder"),
    errno.ENOTDIR: ("its folder is a file", "move that file away"),
    errno.EISDIR: ("a folder has its name", "move the folder away"),
    errno.EMFILE: ("too many files are open", "raise the limit on open files (ulimit -n)"),
}
# What a program's log may say for this reason alone. EPERM and EMFILE are also there for limits that it cannot raise.
_OF_WRITES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO)
_RUST_ERROR = re.compile(r"\(os error (\d+)\)")  # how safetensors and tokenizers, written in Rust, pass errors on


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Write ``path``, a file or folder, in the block: raises StorageError if the file system refuses a write."""
    try:
        yield
    except EntenteError:
        raise
    except Exception as error:
        number, refused = _error_number(error), isinstance(error, OSError)
        if not (refused or number):
            raise
        said = os.strerror(number) if number else one_line(error)
        if isinstance(error, OSError) and number == errno.EINVAL:  # of ``check_regular``, which says more
            said = error.strerror or said
        reason, advice = _REASONS.get(number, (said, "see to that"))
        raise StorageError(f"cannot write {path}: {reason}; {advice}") from error


def storage_error_in(path: Path, log: str) -> StorageError | None:
    """Return the error of another program that wrote ``path``, if its log names a reason why it could not."""
    for number in _OF_WRITES:
        reason, advice = _REASONS[number]
        if os.strerror(number) in log:
            return StorageError(f"cannot write {path}: {reason}; {advice}")
    return None


def write_atomically(path: Path, content: bytes | memoryview, mode: int = 0o666) -> None:
    """Replace a file in one step and return when the new content would survive a power cut.

    A draft in the same folder, which must exist, is written, flushed and renamed over ``path``; a failure removes it.
    ``mode`` is the new file's permissions before the umask.

    Raises:
        StorageError: the file cannot be written, or what is there is a device, a FIFO or a folder; it is unchanged.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.draft")
    with writing(path):
        with suppress(FileNotFoundError):
            check_regular(path, ANY_SIZE)  # else root would rename a file over /dev/null
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        flush_to_disk(path.parent)


def remove_old_drafts(folder: Path) -> None:
    """Remove the drafts in ``folder`` and below that killed processes left more than an hour ago.

    Raises:
        OSError: one cannot be removed.
    """
    for draft in folder.rglob(".*.draft"):
        with suppress(FileNotFoundError):  # its process has just finished
            if time.time() - draft.stat().st_mtime > OLD_DRAFT_S:
                draft.unlink()


def flush_to_disk(*paths: Path) -> None:
    """Flush these files' bytes and these folders' entries to the disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _error_number(error: Exception) -> int:
    """Return the system's number of an error, 0 if it has none."""
    if isinstance(error, OSError):
        return error.errno or 0
    found = _RUST_ERROR.search(str(error))
    return int(found[1]) if found else 0
