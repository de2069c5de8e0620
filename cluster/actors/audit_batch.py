"""The episodes of a run's newest update, kept on disk for audits: ``audit/last_batch.bin``.

Layout: ``b"ENTB"``, a schema version byte, a msgpack array of the learner's version before the update and the
episodes in the format of ``services.replay.codec``. Reading it runs no code from the file.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cluster.errors import RunError
from cluster.runs.folder import RunFolder
from grpo_core.checkpoints.atomic_write import write_atomically, writing
from grpo_core.errors import one_line
from grpo_core.files import read_bytes
from grpo_core.types import Batch
from services.replay.codec import CodecError, decode, encode

SCHEMA_VERSION = 1

_MAGIC = b"ENTB"
_HEADER_BYTES = len(_MAGIC) + 1


class _Record(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    learner_version: int
    episodes: tuple[bytes, ...]


def last_batch_path(folder: RunFolder) -> Path:
    """Path of a run's last batch."""
    return folder.audit / "last_batch.bin"


def save_last_batch(folder: RunFolder, batch: Batch) -> Path:
    """Replace the batch on disk in one step.

    Raises CodecError if an episode breaks ``grpo_core.types``' rules, StorageError if the file cannot be written.
    """
    record = _Record(batch.learner_version, tuple(encode(episode) for episode in batch.episodes))
    path = last_batch_path(folder)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _MAGIC + bytes([SCHEMA_VERSION]) + msgspec.msgpack.encode(record))
    return path


def load_last_batch(folder: RunFolder) -> Batch | None:
    """Load the batch from disk, if any. Raises RunError if it cannot be read, or has another schema version."""
    path = last_batch_path(folder)
    try:
        data = read_bytes(path, None)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    if not data.startswith(_MAGIC) or len(data) <= _HEADER_BYTES:
        raise RunError(f"{path} is no batch of episodes: it does not begin with this format's mark")
    if data[len(_MAGIC)] != SCHEMA_VERSION:
        raise RunError(
            f"{path} is of schema {data[len(_MAGIC)]}, and this version of Entente reads schema {SCHEMA_VERSION}"
        )
    try:
        record = msgspec.msgpack.decode(data[_HEADER_BYTES:], type=_Record)
        return Batch(tuple(decode(episode) for episode in record.episodes), record.learner_version)
    except (ValueError, RecursionError, CodecError) as error:  # msgspec's errors are ValueErrors
        raise RunError(f"{path} is damaged: {one_line(error, 200)}; the run's next checkpoint replaces it") from None
