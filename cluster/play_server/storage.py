"""The folder of a play server: one saved game for each line, and the token of the printed address."""

from __future__ import annotations

import fcntl
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from cluster.errors import RunError
from cluster.play_server.document import from_document, to_document
from cluster.play_server.line import Line
from grpo_core.checkpoints.atomic_write import remove_old_drafts, write_atomically, writing
from grpo_core.errors import EntenteError
from grpo_core.files import MIB, read_bytes, read_json

LARGEST_LINE = 16 * MIB
_FILE = re.compile(r"line-([1-9][0-9]{0,5})\.json")
_TOKEN = re.compile(rb"[A-Za-z0-9_-]{32,100}")


class GamesFolder:
    """Files of one server. Their names are made of line numbers alone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder, and keep other servers out of it inside the block.

        Raises RunError if another server holds it, StorageError if it cannot be made.
        """
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            remove_old_drafts(self.path)
            file = (self.path / ".lock").open("w")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RunError(
                    f"another server plays in {self.path}; open its page, or name another --games-dir"
                ) from None
            yield

    def token(self) -> str:
        """The secret of the address: made once and kept, so that an open page goes on after a restart.

        Its file can be read by this user alone. Raises StorageError if it cannot be written.
        """
        path = self.path / ".token"
        try:
            found = read_bytes(path, 1024).strip()
        except OSError:
            found = b""
        if not _TOKEN.fullmatch(found):
            found = secrets.token_urlsafe(32).encode()
            write_atomically(path, found + b"\n", mode=0o600)
        return found.decode()

    def read(self) -> tuple[dict[int, Line], list[str]]:
        """All lines by number, and what is wrong with files that cannot be read; these are left as they are."""
        lines, problems = {}, []
        numbered = ((_FILE.fullmatch(path.name), path) for path in self.path.iterdir())
        for number, path in sorted((int(found[1]), path) for found, path in numbered if found):
            try:
                line = from_document(read_json(path), path.name)
                if line.id != number:
                    raise RunError(f"{path.name} holds line {line.id}")
                lines[number] = line
            except EntenteError as error:
                problems.append(str(error))
            except (OSError, ValueError) as error:
                problems.append(f"{path.name} cannot be read: {error}")
        return lines, problems

    def next_number(self) -> int:
        """A number that no file has, not even one that cannot be read."""
        numbers = (int(found[1]) for path in self.path.iterdir() if (found := _FILE.fullmatch(path.name)))
        return max(numbers, default=0) + 1

    def write(self, line: Line) -> None:
        """Write a line; what was there stays until the new file is whole. Raises StorageError."""
        content = msgspec.json.encode(to_document(line))
        write_atomically(self.path / f"line-{line.id}.json", content + b"\n")
