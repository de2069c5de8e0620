"""JSON documents with a schema number that a run keeps between starts: read strictly, replaced atomically."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from grpo_core.checkpoints.atomic_write import write_atomically, writing
from grpo_core.errors import one_line
from grpo_core.files import read_bytes
from opponents.population.member import PopulationError

Document = TypeVar("Document", bound=msgspec.Struct)
Parsed = TypeVar("Parsed")


class _SchemaOnly(msgspec.Struct):
    schema: int


def schema_of(text: bytes) -> int:
    """The schema number of a JSON document; ``ValueError`` if it has none."""
    return decode_json(text, _SchemaOnly).schema


def decode_json(text: bytes, kind: type[Parsed]) -> Parsed:
    """Read JSON as a type; ``ValueError`` if it is none, or nested too deeply."""
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def write_document(path: Path, document: msgspec.Struct) -> None:
    """Replace the file in one step by the document, indented for human readers; StorageError if it cannot be."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def read_document(path: Path, kind: type[Document], schema: int) -> Document | None:
    """Read a document, or None without a file; PopulationError if it is damaged or has unknown fields or schema."""
    try:
        text = read_bytes(path)
        found = schema_of(text)
        if found != schema:
            raise PopulationError(f"{path} has schema {found}; this version reads {schema}")
        return decode_json(text, kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PopulationError(f"{path} cannot be read: {error.strerror}; remove it to go on without it") from error
    except ValueError as error:
        raise PopulationError(
            f"{path} is damaged ({one_line(error, 200)}); remove it to continue without its data"
        ) from error
