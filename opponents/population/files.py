"""JSON documents with a schema number that a run keeps between starts: read strictly, replaced atomically."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from grpo_core.checkpoints.atomic_write import write_atomically
from opponents.population.member import PopulationError

Document = TypeVar("Document", bound=msgspec.Struct)


class _SchemaOnly(msgspec.Struct):
    schema: int


def schema_of(text: bytes) -> int:
    """The schema number of a JSON document; ``msgspec.DecodeError`` or ``UnicodeDecodeError`` if it has none."""
    return msgspec.json.decode(text, type=_SchemaOnly).schema


def write_document(path: Path, document: msgspec.Struct) -> None:
    """Replace the file in one step by the document, indented for human readers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def read_document(path: Path, kind: type[Document], schema: int) -> Document | None:
    """Read a document, or None without a file; PopulationError if it is damaged or has unknown fields or schema."""
    try:
        text = path.read_bytes()
        found = schema_of(text)
        if found != schema:
            raise PopulationError(f"{path} has schema {found}; this version reads {schema}")
        return msgspec.json.decode(text, type=kind)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # a ValidationError is a DecodeError
        raise PopulationError(f"{path} is damaged ({error}); remove it to continue without its data") from error
