"""The versioned population: bots, remote players and frozen policies, in one JSON file that many processes may change.

Every change is one transaction (``Population.changing``): under a lock the newest file is read, changed and replaced,
as a new revision. The process that trains takes part at every update boundary, before any block of the new bound is
drawn, and there it writes down the update that it has reached. Whoever joins by hand may be drawn from the update after
that one (``Population.joins_at``). So no line-up that may have been drawn already changes, neither in this process nor
in one that resumes from an older checkpoint, and a resume forgets only what training itself will make anew.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from opponents.population_document import Document, decode, encode
from opponents.population_files import keep_on_disk, locked, replace_file
from opponents.population_member import Member as Member
from opponents.population_member import PopulationError as PopulationError
from opponents.population_member import bot_checksum as bot_checksum
from opponents.population_member import check_member, check_weight, package_version
from opponents.population_member import remote_checksum as remote_checksum
from opponents.population_weights import checksum_of, form_of

LOCK_TIMEOUT_S = 60.0


class Population:
    """Members by id, in the order they joined. Nothing is on disk before ``save`` or the end of ``changing``."""

    def __init__(self, path: Path, *, published: Callable[[Population], None] | None = None) -> None:
        """An empty population.

        Args:
            path: of its file, which may not be there yet.
            published: hears of every state that was saved, after the lock is free again.
        """
        self.path = path
        self.update = 0  # the newest update that any process which trained this run has reached
        self._members: dict[str, Member] = {}
        self._saved = Document()
        self._published = published

    @classmethod
    def load(cls, path: Path, *, published: Callable[[Population], None] | None = None) -> Population:
        """Read a population file.

        Raises:
            PopulationError: the file is missing, is not a population, or has another schema.
        """
        population = cls(path, published=published)
        population._take(population._read())
        return population

    @property
    def revision(self) -> int:
        """Counts the changes ever saved; 0: none."""
        return self._saved.revision

    @property
    def joins_at(self) -> int:
        """The first update whose line-ups may draw somebody who joins now: none of them was drawn yet."""
        return self.update + 1

    def refresh(self) -> bool:
        """See what other processes have changed; whether there was anything.

        Raises:
            PopulationError: the file is gone, damaged or older than what was read from it, or there are changes here
                that were not saved.
        """
        if self.revision == 0 and not self.path.exists():
            return False
        newest = self._read()
        if newest.revision < self.revision:
            raise PopulationError(
                f"{self.path} went back from revision {self.revision} to {newest.revision}: put the newer file back"
            )
        if newest == self._saved:
            return False
        ours = tuple(self._members.values())
        if ours not in (self._saved.members, newest.members):
            raise PopulationError(f"{self.path} was changed by another process, and changes here were not saved")
        self._take(newest)
        return True

    @contextmanager
    def changing(self, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[Population]:
        """One transaction: nobody else writes while the block runs, which begins with the newest state.

        It is saved at the end of the block; if that raises, nothing is changed. It does not nest.

        Raises:
            PopulationError: another process does not let go within ``timeout_s`` seconds; or as ``refresh`` does.
        """
        with locked(self.path, timeout_s):
            self.refresh()
            before = self.document()
            try:
                yield self
                self._write()
            except BaseException:
                self._members = {member.id: member for member in before.members}
                self.update = before.update
                raise
        if self._published is not None:
            self._published(self)

    def save(self) -> None:
        """Write what was changed outside ``changing``.

        Raises:
            PopulationError: another process has changed the file since it was read here, and nothing was written.
        """
        with locked(self.path, LOCK_TIMEOUT_S):
            found = self._read().revision if self.path.exists() else 0
            if found != self.revision:
                raise PopulationError(
                    f"{self.path} was changed by another process: it has revision {found}, and revision "
                    f"{self.revision} was read; read it again"
                )
            self._write()
        if self._published is not None:
            self._published(self)

    def document(self) -> Document:
        """This state; its revision is that of the last one saved."""
        return Document(self.revision, self.update, self.members)

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
            PopulationError: the id is taken, or the weight, form or country is impossible.
        """
        if member.id in self._members:
            raise PopulationError(f"{self.path} already has a member {member.id!r}")
        check_member(member)
        self._members[member.id] = member
        return member

    def add_bot(
        self, name: str, *, weight: float = 1.0, created_at_update: int = 0, country: str | None = None
    ) -> Member:
        """Take in a bot as ``bot/<name>``; raises as ``add`` does."""
        return self._add_fixed("bot", name, bot_checksum(name), weight, created_at_update, country)

    def add_remote(
        self,
        name: str,
        identity: str,
        *,
        weight: float = 1.0,
        created_at_update: int = 0,
        country: str | None = None,
    ) -> Member:
        """Take in a remote player as ``remote/<name>``; raises as ``add`` does.

        ``identity`` says what decides how it plays (``RemoteSettings.identity``).
        """
        return self._add_fixed("remote", name, remote_checksum(identity), weight, created_at_update, country)

    def _add_fixed(
        self,
        kind: Literal["bot", "remote"],
        name: str,
        checksum: str,
        weight: float,
        created_at_update: int,
        country: str | None,
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
                country=country,
            )
        )

    def add_policy(
        self,
        weights: Path,
        *,
        version: int,
        member_id: str | None = None,
        parent: str | None = None,
        weight: float = 1.0,
        created_at_update: int | None = None,
        country: str | None = None,
        config_digest: str | None = None,
        source: str | None = None,
        pinned: bool = False,
    ) -> Member:
        """Take in a frozen weights file, by default as ``policy/v<version>``, the name of this run's own snapshots.

        The file is named relative to the population file, so a run folder can be moved as a whole.
        ``created_at_update`` defaults to the version.

        Raises:
            PopulationError: there is no such file, it is not safetensors, or as ``add`` does.
        """
        member_id = member_id or f"policy/v{version}"
        form = form_of(member_id, weights)
        keep_on_disk(weights)
        return self.add(
            Member(
                id=member_id,
                kind="policy",
                name=Path(os.path.relpath(weights, self.path.parent)).as_posix(),
                version=version,
                checksum=checksum_of(member_id, weights),
                parent=parent,
                created_at_update=version if created_at_update is None else created_at_update,
                weight=weight,
                form=form,
                country=country,
                config_digest=config_digest,
                source=source,
                pinned=pinned,
            )
        )

    def retire(self, member_id: str) -> Member:
        """Never draw this member again; its entry and its file stay. PopulationError for an unknown id."""
        return self._change(member_id, retired=True)

    def readmit(self, member_id: str) -> Member:
        """Take back ``retire``; it may be drawn from the next update on. PopulationError for an unknown id."""
        return self._change(member_id, retired=False, created_at_update=self.joins_at)

    def pin(self, member_id: str, *, pinned: bool = True) -> Member:
        """Let only a person retire it, however many newer snapshots there are. PopulationError for an unknown id."""
        return self._change(member_id, pinned=pinned)

    def set_weight(self, member_id: str, weight: float) -> Member:
        """Draw this member more or less often; PopulationError for an unknown id or an impossible weight."""
        check_weight(member_id, weight)
        return self._change(member_id, weight=weight)

    def _change(self, member_id: str, **fields: Any) -> Member:
        member = dataclasses.replace(self[member_id], **fields)
        self._members[member_id] = member
        return member

    def reached(self, update: int) -> None:
        """Note that training has come to ``update``; it never goes back, also when a run resumes further back."""
        self.update = max(self.update, update)

    def forget_after(self, update: int) -> tuple[str, ...]:
        """Drop the snapshots that training itself froze after ``update``: a run that resumes there makes them anew.

        Who was added by hand stays (a ``source``, or a bot or remote): nobody would add it again. Returns their ids.
        """
        later = tuple(
            member.id
            for member in self._members.values()
            if member.kind == "policy" and member.source is None and member.version > update
        )
        for member_id in later:
            del self._members[member_id]
        return later

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
                    f"which is now {package_version()}"
                )
            return
        path = self.weights_path(member)
        found = checksum_of(member.id, path)
        if found != member.checksum:
            raise PopulationError(
                f"{member.id}: {path} has SHA-256 {found[:12]}..., but {self.path} recorded {member.checksum[:12]}..."
            )

    def _read(self) -> Document:
        try:
            text = self.path.read_bytes()
        except FileNotFoundError as error:
            raise PopulationError(f"no population file at {self.path}") from error
        except OSError as error:
            raise PopulationError(f"the population file {self.path} cannot be read: {error.strerror}") from error
        return decode(text, str(self.path))

    def _take(self, document: Document) -> None:
        self._saved, self.update = document, document.update
        self._members = {member.id: member for member in document.members}

    def _write(self) -> None:
        """Replace the file by the next revision; a crash leaves the old or the new one."""
        document = self.document()
        if document == self._saved and self.path.exists():
            return
        document = dataclasses.replace(document, revision=self.revision + 1)
        replace_file(self.path, encode(document))
        self._saved = document
