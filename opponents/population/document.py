"""The population as JSON text: schema 2 is written, schemas 1 and 2 are read; a change is a new revision."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import msgspec

from opponents.population.member import Member, PopulationError, check_member

SCHEMA_VERSION = 2
READABLE = (1, 2)

_FIELDS = frozenset(field.name for field in dataclasses.fields(Member))
_Count = Annotated[int, msgspec.Meta(ge=0)]


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """One state of a population."""

    revision: int = 0  # counts the changes; 0: never saved
    update: int = 0  # the newest update that any process which trained this run has reached
    members: tuple[Member, ...] = ()  # in the order they joined


class _SchemaOnly(msgspec.Struct):
    schema: int


class _First(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    members: list[dict[str, Any]]


class _Second(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    revision: _Count
    update: _Count
    members: list[dict[str, Any]]


def encode(document: Document) -> bytes:
    """The text of a document, indented for human readers."""
    plain = {"schema": SCHEMA_VERSION, **msgspec.to_builtins(document)}
    return msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"


def decode(text: bytes, where: str) -> Document:
    """The document of a text; what schema 1 does not say has its default.

    Args:
        text: JSON.
        where: names it in errors.

    Raises:
        PopulationError: not a population, damaged, or of another schema.
    """
    try:
        schema = msgspec.json.decode(text, type=_SchemaOnly).schema
        if schema not in READABLE:
            known = " and ".join(map(str, READABLE))
            raise PopulationError(f"{where} has population schema {schema}; this version reads {known}")
        if schema == 1:
            members = _members(msgspec.json.decode(text, type=_First).members, where)
            reached = max((member.created_at_update for member in members), default=0)
            return Document(update=reached, members=members)
        second = msgspec.json.decode(text, type=_Second)
        return Document(second.revision, second.update, _members(second.members, where))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # a ValidationError is one too
        raise PopulationError(f"{where} is not a population file: {error}") from error


def _members(entries: list[dict[str, Any]], where: str) -> tuple[Member, ...]:
    members: dict[str, Member] = {}
    for entry in entries:
        if unknown := sorted(entry.keys() - _FIELDS):
            raise PopulationError(f"{where} is not a population file: a member has a field {unknown[0]!r}")
        member = msgspec.convert(entry, Member)
        if not member.id.startswith(f"{member.kind}/"):
            raise PopulationError(f"{where} is not a population file: {member.id!r} is no id of a {member.kind}")
        if member.id in members:
            raise PopulationError(f"{where} is not a population file: it has {member.id!r} twice")
        check_member(member)
        members[member.id] = member
    return tuple(members.values())
