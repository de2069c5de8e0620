"""What updates learned from, kept in the run folder: ``traces/000123.json.gz`` for ``entente explore``."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from cluster.errors import RunError
from cluster.runs.folder import strict_json
from grpo_core.checkpoints.atomic_write import write_atomically, writing
from grpo_core.errors import one_line
from grpo_core.traces.update_trace import TRACE_SCHEMA, UpdateTrace

MOST_TRACES = 500  # of a run; of a longer one every second, fourth, ... is kept, and the newest
NEWEST = 50  # are kept whatever their number
MOST_BYTES = 1 << 28  # of one trace as text

_NAME = re.compile(r"([0-9]{1,9})\.json\.gz")


class _Columns(msgspec.Struct):
    id: list[str]
    role: list[str]
    turns: list[int]


class _Trace(msgspec.Struct):
    """The parts by which a file is known to be a trace."""

    schema: int
    version: int
    learner: dict[str, Any]
    grouping: dict[str, Any]
    episodes: _Columns
    returns: list[float | None]
    advantages: list[float | None]


def write_trace(folder: Path, trace: UpdateTrace) -> Path:
    """Write an update's trace, and remove those that are not kept. Raises StorageError if it cannot be written."""
    path = folder / f"{trace.version:06d}.json.gz"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, gzip.compress(strict_json(trace.columns), 6, mtime=0))
    found = trace_files(folder)
    with writing(folder):
        for version in set(found) - kept_versions(sorted(found)):
            found[version].unlink(missing_ok=True)
    return path


def kept_versions(versions: Sequence[int]) -> set[int]:
    """Which of these ascending versions stay: the newest, and of the others those that a power of two divides.

    The power grows with the newest version alone, so that what stays is even, whatever was removed before.
    """
    step = 1
    while versions and versions[-1] // step + NEWEST > MOST_TRACES and versions[-1] > MOST_TRACES:
        step *= 2
    return set(versions[-NEWEST:]) | {version for version in versions if version % step == 0}


def trace_files(folder: Path) -> dict[int, Path]:
    """The files in a folder of traces by the version that their update made, in order."""
    found = {int(match[1]): path for path in folder.glob("*.json.gz") if (match := _NAME.fullmatch(path.name))}
    return dict(sorted(found.items()))


def read_trace(path: Path) -> dict[str, Any]:
    """Read one trace. Raises RunError if it is damaged, too large or of another schema."""
    try:
        packed = path.read_bytes()
        unpacker = zlib.decompressobj(wbits=31)
        text = unpacker.decompress(packed, MOST_BYTES)
        if unpacker.unconsumed_tail:
            raise ValueError(f"it holds more than {MOST_BYTES >> 20} MiB")
        trace: dict[str, Any] = msgspec.json.decode(text)
        checked = msgspec.convert(trace, _Trace)
    except (OSError, ValueError, zlib.error, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise RunError(f"{path} is no trace of an update: {one_line(error, 200)}") from None
    if checked.schema != TRACE_SCHEMA:
        raise RunError(f"{path} is of schema {checked.schema}, and this version of Entente reads schema {TRACE_SCHEMA}")
    return trace
