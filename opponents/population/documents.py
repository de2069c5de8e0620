"""Small JSON files of a run that say which schema they have, and are replaced in one step."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from opponents.population.files import replace_file
from opponents.population.population import PopulationError

Document = TypeVar("Document", bound=msgspec.Struct)


class _SchemaOnly(msgspec.Struct):
    schema: int


def write_document(path: Path, document: msgspec.Struct) -> None:
    """Write it, indented for human readers; a crash leaves the old file or the new one."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


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
