"""Reads the lines of a JSONL file that may come from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from grpo_core.files import MIB, read_bytes
from services.environments.word_problems.problem import ProblemFileError

_FILE_BYTES = 64 * MIB
_LINE_BYTES = 64 << 10


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number (from 1) and the bytes of each line that is not empty.

    Raises:
        ProblemFileError: the file cannot be read, is no regular file or has more than 64 MiB, or a line has more than
            64 KiB.
    """
    try:
        content = read_bytes(path, _FILE_BYTES)
    except OSError as error:
        raise ProblemFileError(f"{path}: cannot be read: {error.strerror}") from error
    for number, line in enumerate(content.split(b"\n"), 1):
        if len(line) > _LINE_BYTES:
            raise ProblemFileError(f"{path}, line {number}: it has {len(line):,} bytes, and at most 65,536 are read")
        if line.strip():
            yield number, line
