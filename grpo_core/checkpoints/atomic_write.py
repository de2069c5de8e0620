"""Atomic writes that survive a crash."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

OLD_DRAFT_S = 3600.0  # no write takes this long


def write_atomically(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Replace a file in one step and return when the new content would survive a power cut.

    A draft in the same folder, which must exist, is written, flushed and renamed over ``path``; a failure removes it.
    ``mode`` is the new file's permissions before the umask.

    Raises:
        OSError: the file cannot be written; the old one is unchanged.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.draft")
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
