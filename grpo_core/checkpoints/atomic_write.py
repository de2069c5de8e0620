"""Files that survive a crash: replaced in one step and flushed to the disk."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_atomically(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Replace a file in one step and return when the new content would survive a power cut.

    A reader, or a crash at any moment, finds the old file or the new one, never half of it. The content is written to
    a draft in the same folder, flushed, renamed over ``path``, and the folder is flushed. A failure removes the draft.

    Args:
        path: the file; its folder must exist.
        content: all of its bytes.
        mode: permissions of the new file, less the process's umask.

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


def flush_to_disk(*paths: Path) -> None:
    """Return when a power cut would leave these files (their bytes) and folders (the names in them) in place."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
