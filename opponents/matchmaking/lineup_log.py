"""Who was drawn for every block, written down before it is played: ``lineups.jsonl`` of a run, one JSON line a block.

Line-ups that depend on results depend on timing too, so a restart could not draw them again. It reads them here, and
goes on with an incomplete block as it began. Of two lines about one block the later holds.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from opponents.population.member import PopulationError


class LineupRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one block was drawn."""

    index: int
    power: str  # the learner's country
    members: dict[str, str]  # power -> member id or "learner" of the six others
    strategy: str  # what drew them; "anchors" for a block against anchors alone
    probabilities: str  # digest of the chances behind the draw: equal where they were
    version: int  # updates that the learner had made
    lineup: str  # digest of who sat where, with versions and checksums: the episodes' key


class LineupLog:
    """The records of a run. Each is handed to the system when it is written, so it outlives this process."""

    def __init__(self, path: Path) -> None:
        """Read what is there. A last line that a crash tore is cut off: its block was not being played yet.

        Raises:
            PopulationError: another line is damaged, or the file cannot be read or written.
        """
        self._path = path
        self._records: dict[int, LineupRecord] = {}
        try:
            self._file = path.open("a+b")
            self._file.seek(0)
            lines = self._file.read().splitlines(keepends=True)
            whole = lines[:-1] if lines and not lines[-1].endswith(b"\n") else lines
            for number, line in enumerate(whole, start=1):
                self._take(line, number)
            self._file.seek(0, os.SEEK_END)
            self._file.truncate(sum(map(len, whole)))
        except OSError as error:
            raise PopulationError(f"{path} cannot be read and written: {error.strerror}") from error

    def get(self, index: int) -> LineupRecord | None:
        """The newest record of a block."""
        return self._records.get(index)

    def write(self, record: LineupRecord) -> None:
        """Append a record.

        Raises:
            PopulationError: it cannot be written (a full disk, say).
        """
        try:
            self._file.write(msgspec.json.encode(record) + b"\n")
            self._file.flush()
        except OSError as error:
            raise PopulationError(f"{self._path} cannot be written: {error.strerror}") from error
        self._records[record.index] = record

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _take(self, line: bytes, number: int) -> None:
        try:
            record = msgspec.json.decode(line, type=LineupRecord)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:  # a ValidationError is one too
            raise PopulationError(
                f"{self._path} is damaged in line {number} ({error}); remove the line, and its block is drawn anew"
            ) from error
        self._records[record.index] = record
