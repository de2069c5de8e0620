"""Episode <-> bytes: a checked, versioned, compressed record; reading it never runs code.

Layout: ``b"ENT"``, a schema version byte, one zstd frame around a msgpack array. The arrays of all turns are stored as
little-endian columns: ids and offsets unsigned, 1, 2 or 4 bytes wide, log-probabilities float32, masks one byte 0 or 1.
Decoded arrays have the int32, float32 and bool of ``grpo_core.types``.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
import zstandard

from grpo_core.types import Episode, Turn
from services.replay.codec_columns import COLUMN_DTYPES, Lengths, array_bytes, check, join, pack, split, unpack
from services.replay.codec_columns import CodecError as CodecError

SCHEMA_VERSION = 1
# A small frame may unpack to very much: these bound the time and memory that one takes, far above any real episode.
# A game to 1999 with five decisions a year, each of 32,768 tokens, has 64 MiB of decoded arrays.
MAX_EPISODE_BYTES = 128 << 20  # uncompressed; and of its decoded arrays, which are up to 4 times as wide as stored ones
MAX_FACT_BYTES = 16 << 20  # of these, of the turns without their arrays
MAX_TURNS = 10_000
NAME_LENGTH = 200  # characters of an episode's id, task, role or block
MAX_ENTRIES = 1_000  # of a mapping of the episode; a turn's has a tenth

_MAGIC = b"ENT"
SCHEMA_AT = len(_MAGIC)  # offset of the schema version, one byte
_HEADER_BYTES = SCHEMA_AT + 1


_Name = Annotated[str, msgspec.Meta(max_length=NAME_LENGTH)]
_Figures = Annotated[dict[str, float], msgspec.Meta(max_length=MAX_ENTRIES)]


class _TurnRow(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    prompt_length: int
    completion_length: int
    admissible_length: int
    offsets_length: int
    policy_version: int
    temperature: float
    phase: str
    reward: float
    elapsed_phases: int
    keys: Annotated[dict[str, str | int], msgspec.Meta(max_length=MAX_ENTRIES // 10)]
    defects: tuple[str, ...]


class _Record(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    episode_id: _Name
    task: _Name
    role: _Name
    block_id: _Name
    block_size: int
    keys: Annotated[dict[str, str | int], msgspec.Meta(max_length=MAX_ENTRIES)]
    reward: float
    reward_parts: _Figures
    outcome: _Figures
    seed: int
    turns: msgspec.Raw  # _TurnRows, so that their size is known before they are decoded
    prompt_ids: tuple[int, bytes]
    completion_ids: tuple[int, bytes]
    logprobs: tuple[int, bytes]
    trained_mask: tuple[int, bytes]
    admissible_ids: tuple[int, bytes]
    admissible_offsets: tuple[int, bytes]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Record)
_TURNS_DECODER = msgspec.msgpack.Decoder(Annotated[tuple[_TurnRow, ...], msgspec.Meta(max_length=MAX_TURNS)])
_TURN_SCALARS = _TurnRow.__struct_fields__[4:]  # fields with the names that a Turn has; lengths come before them
_EPISODE_SCALARS = tuple(name for name in _Record.__struct_fields__ if name not in ("turns", *COLUMN_DTYPES))


class _Contexts(threading.local):
    """Zstd contexts: slow to create and not safe to share between threads."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=1, write_checksum=True, write_content_size=True)
        self.decompressor = zstandard.ZstdDecompressor()


_CONTEXTS = _Contexts()


def encode(episode: Episode) -> bytes:
    """Encode an episode; raises ``CodecError`` if it breaks a rule of its types or exceeds one of the limits above."""
    try:
        columns, lengths = join(episode.turns)
        _check_array_bytes(lengths)
        check(columns, lengths)
        rows = tuple(_row(turn) for turn in episode.turns)
        record = _Record(
            episode_id=episode.episode_id,
            task=episode.task,
            role=episode.role,
            block_id=episode.block_id,
            block_size=episode.block_size,
            keys=dict(episode.keys),
            reward=float(episode.reward),
            reward_parts={name: float(value) for name, value in episode.reward_parts.items()},
            outcome={name: float(value) for name, value in episode.outcome.items()},
            seed=episode.seed,
            turns=msgspec.Raw(_ENCODER.encode(rows)),
            **pack(columns),
        )
        _check_scalars(record, rows)
        _check_sizes(record, rows)
        raw = _ENCODER.encode(record)
    except (CodecError, TypeError, ValueError, OverflowError) as error:
        raise CodecError(f"episode {episode.episode_id!r} cannot be stored: {error}") from error
    if len(raw) > MAX_EPISODE_BYTES:
        raise CodecError(f"episode {episode.episode_id!r} takes {len(raw)} bytes, over {MAX_EPISODE_BYTES}")
    return _MAGIC + bytes([SCHEMA_VERSION]) + _CONTEXTS.compressor.compress(raw)


def decode(data: bytes) -> Episode:
    """Decode an episode (read-only arrays). Raises ``CodecError`` if it is damaged, too large or of another schema."""
    if not data.startswith(_MAGIC) or len(data) <= _HEADER_BYTES:
        raise CodecError("not an episode: it does not begin with this format's mark")
    version = data[SCHEMA_AT]
    if version > SCHEMA_VERSION:
        raise CodecError(
            f"written by a newer version of Entente (episode schema {version}, this one reads "
            f"{SCHEMA_VERSION}); let the learner and all rollout workers run one version"
        )
    if version < SCHEMA_VERSION:
        raise CodecError(f"unknown episode schema {version} (this version of Entente reads {SCHEMA_VERSION})")
    try:
        record = _DECODER.decode(_decompress(data[_HEADER_BYTES:]))
        _check_fact_bytes(record)
        rows = _TURNS_DECODER.decode(record.turns)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(f"not an episode: {error}") from error
    _check_scalars(record, rows)
    completion = [row.completion_length for row in rows]
    lengths = {
        "prompt_ids": [row.prompt_length for row in rows],
        **dict.fromkeys(("completion_ids", "logprobs", "trained_mask"), completion),
        "admissible_ids": [row.admissible_length for row in rows],
        "admissible_offsets": [row.offsets_length for row in rows],
    }
    _check_array_bytes(lengths)
    columns = unpack({name: getattr(record, name) for name in COLUMN_DTYPES}, lengths)
    check(columns, lengths)
    return Episode(
        turns=tuple(
            Turn(*arrays, **{name: getattr(row, name) for name in _TURN_SCALARS})
            for row, arrays in zip(rows, split(columns, lengths), strict=True)
        ),
        **{name: getattr(record, name) for name in _EPISODE_SCALARS},
    )


def _row(turn: Turn) -> _TurnRow:
    return _TurnRow(
        prompt_length=len(turn.prompt_ids),
        completion_length=len(turn.completion_ids),
        admissible_length=len(turn.admissible_ids),
        offsets_length=len(turn.admissible_offsets),
        policy_version=turn.policy_version,
        temperature=float(turn.temperature),
        phase=turn.phase,
        reward=float(turn.reward),
        elapsed_phases=turn.elapsed_phases,
        keys=dict(turn.keys),
        defects=tuple(turn.defects),
    )


def _check_fact_bytes(record: _Record) -> None:
    if len(record.turns) > MAX_FACT_BYTES:
        raise CodecError(f"its turns take more than {MAX_FACT_BYTES} bytes without their arrays")


def _check_array_bytes(lengths: Lengths) -> None:
    size = array_bytes(lengths)
    if size > MAX_EPISODE_BYTES:
        raise CodecError(f"its arrays take {size} bytes, over {MAX_EPISODE_BYTES}")


def _check_sizes(record: _Record, rows: Sequence[_TurnRow]) -> None:
    """Refuse to encode what ``decode`` would refuse."""
    _check_fact_bytes(record)
    if len(rows) > MAX_TURNS:
        raise CodecError(f"{len(rows)} turns, over {MAX_TURNS}")
    names = (record.episode_id, record.task, record.role, record.block_id)
    entries = max(len(record.keys), len(record.reward_parts), len(record.outcome))
    of_turns = max((len(row.keys) for row in rows), default=0)
    if max(entries, 10 * of_turns) > MAX_ENTRIES or max(map(len, names)) > NAME_LENGTH:
        raise CodecError("a name or a mapping of it is too long")
    unreadable = next((name for name in names if not name.isprintable()), None)
    if unreadable is not None:  # a buffer on a server takes no other names for its own
        raise CodecError(f"its name {unreadable!a} is not printable text of at most {NAME_LENGTH} characters")


def _check_scalars(record: _Record, rows: Sequence[_TurnRow]) -> None:
    if not record.episode_id or not record.role or not record.block_id:
        raise CodecError("episode_id, role and block_id must not be empty")
    if record.block_size < 1:
        raise CodecError(f"block_size is {record.block_size}; a block has at least one episode")
    _check_keys("keys", record.keys)
    _check_finite("reward", {"": record.reward})
    _check_finite("reward_parts", record.reward_parts)
    _check_finite("outcome", record.outcome)
    for index, row in enumerate(rows):
        if not (math.isfinite(row.temperature) and row.temperature > 0 and math.isfinite(row.reward)):
            raise CodecError(f"turn {index}: bad temperature {row.temperature} or reward {row.reward}")
        if row.policy_version < 0 or row.elapsed_phases < 0:
            raise CodecError(f"turn {index}: policy_version and elapsed_phases cannot be negative")
        _check_keys(f"turn {index}: keys", row.keys)


def _check_keys(name: str, keys: Mapping[str, str | int]) -> None:
    for key, value in keys.items():
        if type(value) not in (str, int):  # a bool passes isinstance, but is not decoded as an int
            raise CodecError(f"{name}[{key!r}] is {value!r}; group keys are text or integers")


def _check_finite(name: str, values: Mapping[str, float]) -> None:
    for key, value in values.items():
        if not math.isfinite(value):
            raise CodecError(f"{name} {key} is {value}, not a finite number")


def _decompress(frame: bytes) -> bytes:
    try:
        size = zstandard.get_frame_parameters(frame).content_size
        if size == zstandard.CONTENTSIZE_UNKNOWN or size > MAX_EPISODE_BYTES:
            raise CodecError(f"unpacks to more than {MAX_EPISODE_BYTES} bytes, or to an unknown size")
        return _CONTEXTS.decompressor.decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CodecError(f"damaged: {error}") from error
