"""What updates learned from, kept in the run folder: ``traces/000123.json.gz`` for ``entente explore``."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from cluster.errors import RunError
from cluster.runs.folder import strict_json
from grpo_core.checkpoints.atomic_write import write_atomically, writing
from grpo_core.errors import one_line
from grpo_core.traces.update_trace import TRACE_SCHEMA, UpdateTrace

MOST_TRACES = 500  # of a run; of a longer one every second, fourth, ... is kept, and the newest
NEWEST = 50  # are kept whatever their number
MOST_BYTES = 1 << 28  # of one trace as text

_NAME = re.compile(r"([0-9]{1,9})\.json\.gz")
_TokenId = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]


_Numbers = list[float | None]
_Facts = dict[str, list[Any]]


class _Episodes(msgspec.Struct):
    """Columns with a value for each episode; dicts have several columns by name."""

    id: list[str]
    block: list[str]
    role: list[str]
    task: list[str]
    reward: _Numbers
    turns: list[int]
    facts: _Facts
    parts: dict[str, _Numbers]
    outcome: _Facts


class _Turns(msgspec.Struct):
    """Columns with a value for each turn."""

    phase: list[str]
    reward: _Numbers
    elapsed: list[int]
    version: list[int]
    written: list[int]
    trained: list[int]
    steps: list[list[int]]
    facts: _Facts
    defects: dict[str, list[str]]


class _Pass(msgspec.Struct):
    step: int
    weight: float
    logprobs: _Numbers
    entropy: _Numbers
    proximal: _Numbers | None = None
    reference: _Numbers | None = None


class _Tokens(msgspec.Struct):
    """The tokens of one turn: of a text, with their numbers in the vocabulary, or of a small network, as words."""

    turn: int
    trained: list[int]
    admissible: list[int]
    behaviour: _Numbers
    passes: list[_Pass]
    prompt: list[_TokenId] | None = None
    completion: list[_TokenId] | None = None
    words: list[str] | None = None
    prompt_text: str | None = None


class _Schema(msgspec.Struct):
    schema: int


class _Trace(msgspec.Struct):
    """What every reader of a trace relies on."""

    version: int
    learner: dict[str, Any]
    grouping: dict[str, Any]
    episodes: _Episodes
    turns: _Turns
    running: dict[str, tuple[float, float]]
    progress: dict[str, tuple[float, float, float]]
    returns: _Numbers
    advantages: _Numbers
    tokens: list[_Tokens]
    separate_roles: bool = False


def write_trace(folder: Path, trace: UpdateTrace) -> Path:
    """Write an update's trace, and remove those that are not kept. Raises StorageError if it cannot be written."""
    path = folder / f"{trace.version:06d}.json.gz"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, gzip.compress(strict_json(trace.columns), 6, mtime=0))
    found = trace_files(folder)
    with writing(folder):
        for version in set(found) - kept_versions(sorted(found)):
            found[version].unlink(missing_ok=True)
    return path


def kept_versions(versions: Sequence[int]) -> set[int]:
    """Which of these ascending versions stay: the newest, and of the others those that a power of two divides.

    The power grows with the newest version alone, so that what stays is even, whatever was removed before.
    """
    step = 1
    while versions and versions[-1] // step + NEWEST > MOST_TRACES and versions[-1] > MOST_TRACES:
        step *= 2
    return set(versions[-NEWEST:]) | {version for version in versions if version % step == 0}


def trace_files(folder: Path) -> dict[int, Path]:
    """The files in a folder of traces by the version that their update made, in order."""
    found = {int(match[1]): path for path in folder.glob("*.json.gz") if (match := _NAME.fullmatch(path.name))}
    return dict(sorted(found.items()))


def read_trace(path: Path) -> dict[str, Any]:
    """Read one trace. Raises RunError if it is damaged, too large or of another schema."""
    try:
        packed = path.read_bytes()
        unpacker = zlib.decompressobj(wbits=31)
        text = unpacker.decompress(packed, MOST_BYTES)
        if unpacker.unconsumed_tail:
            raise ValueError(f"it holds more than {MOST_BYTES >> 20} MiB")
        trace: dict[str, Any] = msgspec.json.decode(text)
        schema = msgspec.convert(trace, _Schema).schema
        if schema == TRACE_SCHEMA:
            checked = msgspec.convert(trace, _Trace)
            _check_lengths(checked)
    except (OSError, ValueError, zlib.error, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise RunError(f"{path} is no trace of an update: {one_line(error, 200)}") from None
    if schema != TRACE_SCHEMA:
        raise RunError(f"{path} is of schema {schema}, and this version of Entente reads schema {TRACE_SCHEMA}")
    named = _NAME.fullmatch(path.name)
    if named is not None and int(named[1]) != checked.version:
        raise RunError(f"{path} holds update {checked.version}; its name says another one")
    return trace


def _check_lengths(trace: _Trace) -> None:
    """Raise ValueError unless all columns of a kind are equally long, and tokens and passes fit their turns."""
    episodes, turns = trace.episodes, trace.turns
    count = sum(episodes.turns)
    _equally_long("episodes", len(episodes.id), _columns(episodes))
    _equally_long("turns", count, _columns(turns))
    if min(episodes.turns, default=0) < 0 or len(trace.returns) != len(trace.advantages):
        raise ValueError("returns and advantages are not of the same samples")
    if len(trace.returns) not in (len(episodes.id), count):
        raise ValueError(
            f"{len(trace.returns)} samples are neither the {len(episodes.id)} episodes nor the {count} turns"
        )
    for each in trace.tokens:
        if not 0 <= each.turn < count or (each.words is None and (each.prompt is None or each.completion is None)):
            raise ValueError(f"tokens of turn {each.turn} are of no turn, or lack their text")
        written = len(each.words if each.completion is None else each.completion)  # type: ignore[arg-type]
        columns = [each.behaviour, *(column for found in each.passes for column in _columns(found))]
        if any(len(column) != len(each.trained) for column in columns) or not all(
            0 <= place < written for place in each.trained
        ):
            raise ValueError(f"the tokens of turn {each.turn} and their probabilities differ in number")


def _columns(part: msgspec.Struct) -> list[list[Any]]:
    """All columns of a part, those in its dicts among them."""
    values = [getattr(part, name) for name in part.__struct_fields__ if name != "defects"]
    plain = [value for value in values if isinstance(value, list)]
    return plain + [column for value in values if isinstance(value, dict) for column in value.values()]


def _equally_long(kind: str, count: int, columns: list[list[Any]]) -> None:
    wrong = {len(column) for column in columns} - {count}
    if wrong:
        raise ValueError(f"a column of its {count} {kind} has {min(wrong)} values")
