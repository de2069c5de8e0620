"""The arrays of an episode's turns as columns: joined for storage, checked as a whole, and split again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_core.types import Turn

INT = np.dtype("<i4")
COLUMN_DTYPES: dict[str, np.dtype[Any]] = {
    "prompt_ids": INT,
    "completion_ids": INT,
    "logprobs": np.dtype("<f4"),
    "trained_mask": np.dtype("u1"),
    "admissible_ids": INT,
    "admissible_offsets": INT,
}
_TURN_DTYPES: dict[str, np.dtype[Any]] = {**COLUMN_DTYPES, "trained_mask": np.dtype(np.bool_)}


class CodecError(ValueError):
    """These bytes are no episode that this version can read, or this episode breaks the rules of its types."""


_UNSIGNED: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4")}

Packed = tuple[int, bytes]  # bytes per item, and the items
Columns = dict[str, NDArray[Any]]  # by the names and dtypes of COLUMN_DTYPES, all N turns one after another
Lengths = Mapping[str, Sequence[int]]  # by the names of COLUMN_DTYPES: the items of each of the N turns


def join(turns: Sequence[Turn]) -> tuple[Columns, Lengths]:
    """Join the turns' arrays into columns; raises ``CodecError`` if a type or shape is wrong, or lengths disagree."""
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in COLUMN_DTYPES}
    for index, turn in enumerate(turns):
        for name, dtype in _TURN_DTYPES.items():
            array = getattr(turn, name)
            if array.dtype != dtype or array.ndim != 1:
                raise CodecError(f"turn {index}: {name} is {array.ndim}-d {array.dtype}, not 1-d {dtype}")
            parts[name].append(array)
        if not len(turn.completion_ids) == len(turn.logprobs) == len(turn.trained_mask):
            raise CodecError(
                f"turn {index}: {len(turn.completion_ids)} completion ids, but {len(turn.logprobs)} "
                f"log-probabilities and {len(turn.trained_mask)} mask entries"
            )
    lengths = {name: [len(array) for array in arrays] for name, arrays in parts.items()}
    columns: Columns = {
        name: np.concatenate(parts[name]).astype(dtype, copy=False) if turns else np.empty(0, dtype)
        for name, dtype in COLUMN_DTYPES.items()
    }
    return columns, lengths


def pack(columns: Columns) -> dict[str, Packed]:
    """Encode columns that ``check`` accepted as little-endian bytes; the largest integer sets the width."""
    packed: dict[str, Packed] = {}
    for name, dtype in COLUMN_DTYPES.items():
        column = columns[name]
        if dtype == INT:
            largest = int(column.max()) if column.size else 0
            width = next(width for width in _UNSIGNED if largest < 256**width)
            column = column.astype(_UNSIGNED[width])
        packed[name] = (column.itemsize, column.tobytes())
    return packed


def array_bytes(lengths: Lengths) -> int:
    """Return the bytes of the decoded columns; a column with a negative length, which ``unpack`` refuses, has none."""
    return sum(max(sum(lengths[name]), 0) * dtype.itemsize for name, dtype in COLUMN_DTYPES.items())


def unpack(packed: Mapping[str, Packed], lengths: Lengths) -> Columns:
    """Decode columns, read-only; raises ``CodecError`` if a width is invalid or the lengths do not match the bytes."""
    columns: Columns = {}
    for name, dtype in COLUMN_DTYPES.items():
        width, data = packed[name]
        stored = _UNSIGNED.get(width) if dtype == INT else dtype
        needed = lengths[name]
        if stored is None or stored.itemsize != width:
            raise CodecError(f"{name} has an invalid width of {width} bytes")
        if any(length < 0 for length in needed) or sum(needed) * width != len(data):
            raise CodecError(f"{name} holds {len(data)} bytes of {width} each, but lengths {needed}")
        columns[name] = np.frombuffer(data, dtype=stored).astype(dtype, copy=False)
        columns[name].flags.writeable = False
    return columns


def check(columns: Columns, lengths: Lengths) -> None:
    """Check the rules of ``grpo_core.types.Turn`` on whole columns; raises ``CodecError`` for the first broken one."""
    for name in ("prompt_ids", "completion_ids", "admissible_ids"):
        if columns[name].size and int(columns[name].min()) < 0:
            raise CodecError(f"{name} holds a negative token id")
    if not bool(np.isfinite(columns["logprobs"]).all()):
        raise CodecError("logprobs holds a value that is not finite")
    mask = columns["trained_mask"]
    if mask.size and int(mask.max()) > 1:
        raise CodecError("trained_mask holds a byte that is neither 0 nor 1")
    _check_offsets(columns["admissible_offsets"], mask, lengths)


def _check_offsets(offsets: NDArray[Any], mask: NDArray[Any], lengths: Lengths) -> None:
    """Check that each turn's S + 1 offsets run from 0 to its number of admissible ids, or that both are absent."""
    trained_before = np.concatenate(([0], np.cumsum(mask, dtype=np.int64)))
    completion_ends = np.cumsum([0, *lengths["completion_ids"]])
    sampled = np.diff(trained_before[completion_ends]).tolist()
    start = 0
    starts: list[int] = []
    rows = zip(sampled, lengths["admissible_offsets"], lengths["admissible_ids"], strict=True)
    for index, (count, entries, admissible) in enumerate(rows):
        if entries == 0 and admissible == 0:
            continue  # free decoding
        if entries != count + 1:
            raise CodecError(f"turn {index}: {entries} admissible offsets for {count} sampled tokens")
        if offsets[start] != 0 or offsets[start + entries - 1] != admissible:
            raise CodecError(f"turn {index}: admissible offsets must run from 0 to {admissible}")
        starts.append(start)
        start += entries
    steps = np.diff(offsets.astype(np.int64))
    steps[[at - 1 for at in starts[1:]]] = 0  # from one turn's last offset to the next turn's first
    if bool((steps < 0).any()):
        raise CodecError("admissible offsets decrease")


def split(columns: Columns, lengths: Lengths) -> Iterator[tuple[Any, ...]]:
    """Return each turn's arrays, as views, in the order of ``COLUMN_DTYPES``."""
    views: list[list[NDArray[Any]]] = []
    for name, dtype in _TURN_DTYPES.items():
        column = columns[name].view(dtype)
        ends = accumulate(lengths[name])
        views.append([column[end - length : end] for length, end in zip(lengths[name], ends, strict=True)])
    return zip(*views, strict=True)
