"""Parquet tables whose columns are documented in the file: a description each, and why a column is left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.errors import RunError
from grpo_core.checkpoints.atomic_write import writing
from services.environments.diplomacy.position import POWERS

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 1000  # written together
METADATA = b"entente"  # key of the schema's metadata; its value is JSON


@dataclass(frozen=True, slots=True)
class Column:
    """One column; its ``kind`` is ``text``, ``integer``, ``number``, ``texts``, ``seats``, ``centers`` or ``years``."""

    name: str
    kind: str
    description: str


def check_parquet() -> None:
    """Raise RunError, with the command that installs it, if there is no library that writes parquet."""
    if find_spec("pyarrow") is None:
        raise RunError("parquet is written by pyarrow, which is not installed: pip install 'entente[parquet]'")


def write_table(
    path: Path,
    columns: Sequence[Column],
    rows: Iterable[Mapping[str, Any]],
    *,
    left_out: Mapping[str, str],
    about: Mapping[str, Any],
) -> int:
    """Write the rows, some at a time, and return their number; a value that a row lacks is null.

    ``left_out`` gives the reason for each column that is not there, and ``about`` the run's identity; both are in the
    schema's metadata. Raises StorageError if the file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    told = {"columns": {each.name: each.description for each in columns}, "left_out": dict(left_out), **about}
    schema = pa.schema(
        [pa.field(each.name, _type(each.kind), metadata={"description": each.description}) for each in columns],
        metadata={METADATA: json.dumps(told).encode()},
    )
    count = 0
    with writing(path), pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for part in _parts(rows):
            count += len(part)
            named = [{each.name: row.get(each.name) for each in columns} for row in part]
            writer.write_table(pa.Table.from_pylist(named, schema=schema))
    return count


def _parts(rows: Iterable[Mapping[str, Any]]) -> Iterable[list[Mapping[str, Any]]]:
    part = []
    for row in rows:
        part.append(row)
        if len(part) == ROWS:
            yield part
            part = []
    if part:
        yield part


def _type(kind: str) -> pa.DataType:
    import pyarrow as pa

    centers = [(power, pa.int32()) for power in POWERS]
    types = {
        "text": pa.string(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "texts": pa.list_(pa.string()),
        "seats": pa.struct([(power, pa.string()) for power in POWERS]),
        "centers": pa.struct(centers),
        "years": pa.list_(pa.struct([("year", pa.int32()), *centers])),
    }
    return types[kind]
