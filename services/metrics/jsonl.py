"""``metrics.jsonl``: one JSON object per update, append-only, readable during the run.

A line is ``{"update": 3, "time": 1764000000.1, "metrics": {"entente_loss": 0.1, ...}}``: ``time`` in
unix seconds; ``metrics`` has the keys and values of ``services.metrics.catalogue`` (histograms as arrays).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from grpo_core.checkpoints.atomic_write import write_atomically, writing
from grpo_core.errors import one_line
from grpo_core.files import read_bytes
from services.metrics.catalogue import MetricsError, Value, check

_Number = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]  # finite, and so are sums of many


@dataclass(frozen=True, slots=True)
class MetricsLine:
    """One update's measurements."""

    update: Annotated[int, msgspec.Meta(ge=0, le=10**9)]
    time: _Number  # unix seconds
    metrics: dict[str, _Number | list[_Number]]


class JsonlSink:
    """Appends to a ``metrics.jsonl``; ``record`` flushes every line."""

    def __init__(self, path: Path, resume_after: int | None = None, clock: Callable[[], float] = time.time) -> None:
        """Open for appending, in a folder that exists; ``clock`` returns unix seconds.

        ``resume_after`` is the update of the checkpoint from which the run resumes: later lines and a torn last line
        are cut, and written again. ``None``: a new file. Raises ``MetricsError`` if a new run would overwrite
        measurements, or the file is damaged; ``StorageError`` if it cannot be written.
        """
        self._clock = clock
        if resume_after is None:
            if path.exists() and path.stat().st_size > 0:
                raise MetricsError(f"{path} already holds measurements; resume that run or choose another folder")
        elif path.exists():
            kept = [line for line in read_metrics(path) if line.update <= resume_after]
            write_atomically(path, "".join(map(_line, kept)).encode())
        self._path = path
        with writing(path):
            self._file = path.open("a", encoding="utf-8")

    def record(self, update: int, values: Mapping[str, Value]) -> None:
        """Append one line and flush it. Raises ``StorageError`` if it cannot be written."""
        check(values)
        metrics = {key: list(one) if isinstance(one, Sequence) else one for key, one in values.items()}
        with writing(self._path):
            self._file.write(_line(MetricsLine(update, round(self._clock(), 3), metrics)))
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # of a line that could not be written, which ``record`` has reported
            self._file.close()


def read_metrics(path: Path) -> list[MetricsLine]:
    """Read all whole lines, in order, but not a torn last one.

    Raises ``MetricsError`` if an earlier one is damaged, or the file cannot be read.
    """
    lines = []
    try:
        texts = read_bytes(path, None).split(b"\n")
    except OSError as error:
        raise MetricsError(f"{path} cannot be read: {error.strerror}") from error
    for number, text in enumerate(texts, 1):
        try:
            lines.append(msgspec.json.decode(text, type=MetricsLine))
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            if number < len(texts):  # the last one is torn, or empty after a line end
                shown = one_line(text[:60].decode("utf-8", "replace"))
                raise MetricsError(f"{path} line {number} is no measurement: {shown!r}") from error
    return lines


def _line(line: MetricsLine) -> str:
    return json.dumps(asdict(line), separators=(",", ":"), allow_nan=False) + "\n"
