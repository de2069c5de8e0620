"""Members in one file that many processes change: its lock, transactions, and the refusal of stale changes."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

from grpo_core.checkpoints.atomic_write import write_atomically, writing
from grpo_core.errors import one_line
from grpo_core.files import read_bytes
from opponents.population.document import Document, decode, encode
from opponents.population.member import Member, PopulationError

LOCK_TIMEOUT_S = 60.0
_POLL_S = 0.005


class StoredMembers:
    """Members by id as one file holds them, the newest update reached, and a revision that counts the changes."""

    def __init__(self, path: Path, *, on_saved: Callable[[Document, Path], object] | None = None) -> None:
        """Start empty. ``on_saved`` is called with every saved state and its file, after the lock is released."""
        self.path = path
        self.update = 0  # the newest update that any process which trained this run has reached
        self._members: dict[str, Member] = {}
        self._saved = Document()
        self._on_saved = on_saved

    @classmethod
    def load(cls, path: Path, *, on_saved: Callable[[Document, Path], object] | None = None) -> Self:
        """Read a population file; PopulationError if it is missing, not a population, or of another schema."""
        population = cls(path, on_saved=on_saved)
        population._set_state(population._read())
        return population

    @property
    def revision(self) -> int:
        """Number of changes ever saved; 0 if none."""
        return self._saved.revision

    @property
    def join_update(self) -> int:
        """The first update whose line-ups may draw a member that joins now: none of them has been drawn yet."""
        return self.update + 1

    def refresh(self) -> bool:
        """Read the changes of other processes; returns whether there were any.

        Raises PopulationError if the file is gone, damaged or older than before, or this object has unsaved changes.
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
        self._set_state(newest)
        return True

    @contextmanager
    def transaction(self, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[Self]:
        """One transaction: the block starts from the newest state, and no other process writes while it runs.

        The state is saved at its end; if the block or the save raises, nothing is changed. Transactions do not nest.
        Raises PopulationError as ``refresh``, or if another process holds the lock for ``timeout_s`` seconds;
        StorageError if the file cannot be written.
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
        """Write changes made outside ``transaction``. Raises PopulationError as ``refresh``, having written nothing."""
        with self.transaction():
            pass

    def document(self) -> Document:
        """The present state, with the revision of the last saved one."""
        return Document(self.revision, self.update, self.members)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> Member:
        try:
            return self._members[member_id]
        except KeyError:
            raise PopulationError(f"{self.path} has no member {one_line(repr(member_id), 80)}") from None

    @property
    def members(self) -> tuple[Member, ...]:
        """All members, retired ones included, in the order they joined."""
        return tuple(self._members.values())

    def _read(self) -> Document:
        try:
            text = read_bytes(self.path)
        except FileNotFoundError as error:
            raise PopulationError(f"no population file at {self.path}") from error
        except OSError as error:
            raise PopulationError(f"the population file {self.path} cannot be read: {error.strerror}") from error
        return decode(text, str(self.path))

    def _set_state(self, document: Document) -> None:
        self._saved, self.update = document, document.update
        self._members = {member.id: member for member in document.members}

    def _write(self) -> None:
        """Replace the file by the next revision, if anything has changed."""
        document = self.document()
        if document == self._saved and self.path.exists():
            return
        document = dataclasses.replace(document, revision=self.revision + 1)
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, encode(document))
        self._saved = document


@contextmanager
def locked(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock of ``path`` while the block runs. It does not nest, not even within one thread.

    The lock is a file beside ``path``; the operating system frees it however its holder ends. Raises PopulationError
    if another process held it for ``timeout_s`` seconds (the message names it); StorageError if it cannot be written.
    """
    lock = path.with_name(f".{path.name}.lock")
    with writing(lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("a+")
    with file:
        _acquire(file, path, timeout_s)
        try:
            with writing(lock):  # unbuffered: what a full disk refuses is not tried again at closing
                os.ftruncate(file.fileno(), 0)
                os.write(file.fileno(), f"process {os.getpid()} on {socket.gethostname()}".encode())
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # also if a child process has inherited the open file


def _acquire(file: IO[str], path: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                file.seek(0)
                holder = one_line(file.read(200), 80) or "another process"
                raise PopulationError(
                    f"{path} has been held by {holder} for {timeout_s:g} s, where a change takes a moment: let that "
                    "process go on or end it, then try again"
                ) from None
            time.sleep(_POLL_S)
