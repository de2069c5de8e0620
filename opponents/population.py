"""The versioned population: bots, remote players and frozen snapshots of the learner, in one JSON file."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Literal

import msgspec

SCHEMA_VERSION = 1


class PopulationError(Exception):
    """The population file, or a file it names, is not what it should be."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Somebody who can be invited to the table. What it plays never changes: new weights, new member."""

    id: str  # "bot/dumbbot", "policy/v20", "remote/gpt"
    kind: Literal["bot", "policy", "remote"]
    name: str  # the bot's or remote's name, or the path of the weights file relative to the population file
    version: int  # the learner's update count for policies, else 0
    checksum: str  # SHA-256 of the weights file; for others of the name (or settings) and this package's version
    parent: str | None  # id of the member it was trained from
    created_at_update: int
    weight: float  # how often it is drawn, relative to the other active members; >= 0
    retired: bool = False


class _SchemaOnly(msgspec.Struct):
    schema: int


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    members: list[Member]


class Population:
    """Members by id, in the order they joined. Nothing is on disk before ``save``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._members: dict[str, Member] = {}

    @classmethod
    def load(cls, path: Path) -> Population:
        """Read a population file.

        Raises:
            PopulationError: the file is missing, is not a population, or has another schema.
        """
        try:
            text = path.read_bytes()
        except FileNotFoundError as error:
            raise PopulationError(f"no population file at {path}") from error
        try:
            schema = msgspec.json.decode(text, type=_SchemaOnly).schema
            if schema != SCHEMA_VERSION:
                raise PopulationError(f"{path} has population schema {schema}; this version reads {SCHEMA_VERSION}")
            document = msgspec.json.decode(text, type=_Document)
        except msgspec.DecodeError as error:  # a ValidationError is one too
            raise PopulationError(f"{path} is not a population file: {error}") from error
        population = cls(path)
        for member in document.members:
            population.add(member)
        return population

    def save(self) -> None:
        """Write the file so that a crash leaves the old or the new one: temporary file, fsync, rename."""
        document = _Document(schema=SCHEMA_VERSION, members=list(self._members.values()))
        text = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> Member:
        try:
            return self._members[member_id]
        except KeyError:
            raise PopulationError(f"{self.path} has no member {member_id!r}") from None

    @property
    def members(self) -> tuple[Member, ...]:
        """Everybody, retired ones included, in the order they joined."""
        return tuple(self._members.values())

    def active(self) -> tuple[Member, ...]:
        """Members that may be drawn, sorted by id."""
        return tuple(sorted((m for m in self._members.values() if not m.retired), key=lambda m: m.id))

    def add(self, member: Member) -> Member:
        """Take in a member.

        Raises:
            PopulationError: the id is taken, or the weight is negative or not finite.
        """
        if member.id in self._members:
            raise PopulationError(f"{self.path} already has a member {member.id!r}")
        _check_weight(member.id, member.weight)
        self._members[member.id] = member
        return member

    def add_bot(self, name: str, *, weight: float = 1.0, created_at_update: int = 0) -> Member:
        """Take in a bot as ``bot/<name>``; raises as ``add`` does."""
        return self._add_fixed("bot", name, bot_checksum(name), weight, created_at_update)

    def add_remote(self, name: str, identity: str, *, weight: float = 1.0, created_at_update: int = 0) -> Member:
        """Take in a remote player as ``remote/<name>``; raises as ``add`` does.

        ``identity`` says what decides how it plays (``RemoteSettings.identity``).
        """
        return self._add_fixed("remote", name, remote_checksum(identity), weight, created_at_update)

    def _add_fixed(
        self, kind: Literal["bot", "remote"], name: str, checksum: str, weight: float, created_at_update: int
    ) -> Member:
        """A member without weights of ours, as ``<kind>/<name>``."""
        return self.add(
            Member(
                id=f"{kind}/{name}",
                kind=kind,
                name=name,
                version=0,
                checksum=checksum,
                parent=None,
                created_at_update=created_at_update,
                weight=weight,
            )
        )

    def add_policy(
        self,
        weights: Path,
        *,
        version: int,
        parent: str | None = None,
        weight: float = 1.0,
        created_at_update: int | None = None,
    ) -> Member:
        """Take in a frozen weights file as ``policy/v<version>``.

        The file is named relative to the population file, so a run folder can be moved as a whole.
        ``created_at_update`` defaults to the version.

        Raises:
            PopulationError: there is no such file, or as ``add`` does.
        """
        member_id = f"policy/v{version}"
        return self.add(
            Member(
                id=member_id,
                kind="policy",
                name=Path(os.path.relpath(weights, self.path.parent)).as_posix(),
                version=version,
                checksum=_file_checksum(member_id, weights),
                parent=parent,
                created_at_update=version if created_at_update is None else created_at_update,
                weight=weight,
            )
        )

    def retire(self, member_id: str) -> Member:
        """Never draw this member again; its entry and its file stay. PopulationError for an unknown id."""
        member = dataclasses.replace(self[member_id], retired=True)
        self._members[member_id] = member
        return member

    def forget_after(self, update: int) -> tuple[str, ...]:
        """Drop members made after ``update``: a run that resumes there will make them anew. Returns their ids."""
        later = tuple(member.id for member in self._members.values() if member.created_at_update > update)
        for member_id in later:
            del self._members[member_id]
        return later

    def set_weight(self, member_id: str, weight: float) -> Member:
        """Draw this member more or less often; PopulationError for an unknown id or an impossible weight."""
        _check_weight(member_id, weight)
        member = dataclasses.replace(self[member_id], weight=weight)
        self._members[member_id] = member
        return member

    def weights_path(self, member: Member) -> Path:
        """Where a policy's weights lie."""
        if member.kind != "policy":
            raise PopulationError(f"{member.id} is a {member.kind} and has no weights file")
        return self.path.parent / member.name

    def verify(self, member: Member) -> None:
        """Check that the member still plays what it played when it joined (a bot or a policy; ``Remotes`` for others).

        Raises:
            PopulationError: names the member and the file whose checksum differs (bots: the package version).
        """
        if member.kind == "bot":
            if bot_checksum(member.name) != member.checksum:
                raise PopulationError(
                    f"{member.id} in {self.path} was recorded by another version of this package, "
                    f"which is now {_package_version()}"
                )
            return
        path = self.weights_path(member)
        found = _file_checksum(member.id, path)
        if found != member.checksum:
            raise PopulationError(
                f"{member.id}: {path} has SHA-256 {found[:12]}..., but {self.path} recorded {member.checksum[:12]}..."
            )


def bot_checksum(name: str) -> str:
    """SHA-256 of a bot's name and this package's version: what a bot plays changes only with a release."""
    return hashlib.sha256(f"{name}\n{_package_version()}".encode()).hexdigest()


def remote_checksum(identity: str) -> str:
    """SHA-256 of what decides how a remote player plays, and of this package's version, which words its prompt."""
    return hashlib.sha256(f"{identity}\n{_package_version()}".encode()).hexdigest()


def _package_version() -> str:
    return metadata.version("entente")


def _file_checksum(member_id: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PopulationError(f"{member_id}: cannot read its weights {path}: {error.strerror}") from error


def _check_weight(member_id: str, weight: float) -> None:
    if not (math.isfinite(weight) and weight >= 0):
        raise PopulationError(f"{member_id}: weight must be a finite number >= 0, not {weight}")
