"""The population as JSON text: writes schema 2, reads schemas 1 and 2; every change is a new revision."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import msgspec

from grpo_core.errors import one_line
from opponents.population.files import decode_json, schema_of
from opponents.population.member import LARGEST_VERSION, Member, PopulationError, check_member

SCHEMA_VERSION = 2
READABLE = (1, 2)

_FIELDS = frozenset(field.name for field in dataclasses.fields(Member))
_Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_VERSION)]


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """One state of a population."""

    revision: int = 0  # number of changes; 0: never saved
    update: int = 0  # the newest update that training of this run has reached
    members: tuple[Member, ...] = ()  # in the order they joined


class _Schema1(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    members: list[dict[str, Any]]


class _Schema2(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    revision: _Count
    update: _Count
    members: list[dict[str, Any]]


def encode(document: Document) -> bytes:
    """The JSON text of a document, indented for human readers."""
    plain = {"schema": SCHEMA_VERSION, **msgspec.to_builtins(document)}
    return msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"


def decode(text: bytes, where: str) -> Document:
    """Read a document; fields that schema 1 lacks get their defaults. ``where`` names the text in errors.

    Raises PopulationError if it is not a population, damaged, or of another schema.
    """
    try:
        schema = schema_of(text)
        if schema not in READABLE:
            known = " and ".join(map(str, READABLE))
            raise PopulationError(f"{where} has population schema {schema}; this version reads {known}")
        if schema == 1:
            members = _members(decode_json(text, _Schema1).members, where)
            reached = max((member.created_at_update for member in members), default=0)
            return Document(update=reached, members=members)
        document = decode_json(text, _Schema2)
        return Document(document.revision, document.update, _members(document.members, where))
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise PopulationError(f"{where} is not a population file: {one_line(error, 200)}") from error


def _shown(text: str) -> str:
    return repr(one_line(text, 80))


def _members(entries: list[dict[str, Any]], where: str) -> tuple[Member, ...]:
    members: dict[str, Member] = {}
    for entry in entries:
        if unknown := sorted(entry.keys() - _FIELDS):
            raise PopulationError(f"{where} is not a population file: a member has a field {_shown(unknown[0])}")
        member = msgspec.convert(entry, Member)
        if not member.id.startswith(f"{member.kind}/"):
            raise PopulationError(f"{where} is not a population file: {_shown(member.id)} is no id of a {member.kind}")
        check_member(member)
        if member.id in members:
            raise PopulationError(f"{where} is not a population file: it has {member.id!r} twice")
        members[member.id] = member
    return tuple(members.values())
