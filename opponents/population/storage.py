"""Members in a file that many processes change: transactions, refreshes, and refusals of what is stale."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from grpo_core.checkpoints.atomic_write import write_atomically
from opponents.population.document import Document, decode, encode
from opponents.population.files import locked
from opponents.population.member import Member, PopulationError

LOCK_TIMEOUT_S = 60.0


class StoredMembers:
    """Members by id as one file has them, the newest update reached, and a revision that counts the changes."""

    def __init__(self, path: Path, *, on_saved: Callable[[Document, Path], object] | None = None) -> None:
        """An empty population.

        Args:
            path: of its file, which may not be there yet.
            on_saved: called with every saved state and its file, after the lock is released.
        """
        self.path = path
        self.update = 0  # the newest update that any process which trained this run has reached
        self._members: dict[str, Member] = {}
        self._saved = Document()
        self._on_saved = on_saved

    @classmethod
    def load(cls, path: Path, *, on_saved: Callable[[Document, Path], object] | None = None) -> Self:
        """Read a population file.

        Raises:
            PopulationError: the file is missing, is not a population, or has another schema.
        """
        population = cls(path, on_saved=on_saved)
        population._take(population._read())
        return population

    @property
    def revision(self) -> int:
        """Counts the changes ever saved; 0: none."""
        return self._saved.revision

    @property
    def join_update(self) -> int:
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
    def transaction(self, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[Self]:
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
        if self._on_saved is not None:
            self._on_saved(self._saved, self.path)

    def save(self) -> None:
        """Write what was changed outside ``transaction``.

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
        if self._on_saved is not None:
            self._on_saved(self._saved, self.path)

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
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, encode(document))
        self._saved = document
