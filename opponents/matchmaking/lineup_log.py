"""The line-up of every block, logged before it is played: ``lineups.jsonl`` of a run, one JSON line per block.

Line-ups that depend on results also depend on timing, so a restart could not draw them again. It reads them here and
finishes an incomplete block as it began. If two lines are about one block, the later counts.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from grpo_core.checkpoints.atomic_write import writing
from grpo_core.errors import one_line
from grpo_core.files import check_regular
from opponents.population.files import decode_json
from opponents.population.member import PopulationError


class LineupRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The draw of one block."""

    index: int
    power: str  # the learner's role
    members: dict[str, str]  # role -> member id or "learner" of all other seats
    strategy: str  # the strategy that drew them; "anchors" for a block against anchors alone
    probabilities: str  # digest of the weights behind the draw
    version: int  # number of updates that the learner had made
    lineup: str  # digest of the players with versions and checksums: the episodes' group key
    start: str = ""  # where its games start


class LineupLog:
    """The newest record of each block of a run. Each is flushed when it is written, so it outlives this process."""

    def __init__(self, path: Path) -> None:
        """Read the file. A last line that a crash cut short is removed: its block was not being played yet.

        Raises PopulationError if another line is damaged, StorageError if the file cannot be read and written.
        """
        self._path = path
        self._records: dict[int, LineupRecord] = {}
        with writing(path):
            if path.exists():
                check_regular(path)
            self._file = path.open("a+b")
            self._file.seek(0)
            lines = self._file.read().splitlines(keepends=True)
            whole = lines[:-1] if lines and not lines[-1].endswith(b"\n") else lines
            for number, line in enumerate(whole, start=1):
                record = self._decoded(line, number)
                self._records[record.index] = record
            self._file.seek(0, os.SEEK_END)
            self._file.truncate(sum(map(len, whole)))

    def get(self, index: int) -> LineupRecord | None:
        """The newest record of a block."""
        return self._records.get(index)

    def write(self, record: LineupRecord) -> None:
        """Append a record. Raises StorageError if it cannot be written."""
        with writing(self._path):
            self._file.write(msgspec.json.encode(record) + b"\n")
            self._file.flush()
        self._records[record.index] = record

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # of a line that could not be written, which ``write`` has reported
            self._file.close()

    def _decoded(self, line: bytes, number: int) -> LineupRecord:
        try:
            return decode_json(line, LineupRecord)
        except ValueError as error:
            raise PopulationError(
                f"{self._path} is damaged in line {number} ({one_line(error, 200)}); remove the line, and its block is "
                "drawn again"
            ) from error
