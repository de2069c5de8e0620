"""The weight files of frozen policies: safetensors only, recognised by content and verified before each use."""

from __future__ import annotations

import hashlib
from pathlib import Path

from safetensors import SafetensorError, safe_open

from grpo_core.errors import one_line
from grpo_core.files import check_regular, read_bytes
from opponents.population.member import Form, Member, PopulationError

ADAPTER_CONFIG = "adapter_config"  # key in the header of an adapter's file, as ``grpo_core.models.lora`` writes it


def form_of(member_id: str, path: Path) -> Form:
    """Whether a file holds full weights or an adapter, by its header; its tensors are not read.

    Raises PopulationError for anything but a whole safetensors file with tensors: no other format is ever read.
    """
    try:
        check_regular(path)
        with safe_open(path, framework="np") as file:
            texts, tensors = file.metadata() or {}, len(file.keys())
    except OSError as error:  # the library's own errors have no strerror
        reason = error.strerror or one_line(error, 200)
        raise PopulationError(f"{member_id}: cannot read its weights {path}: {reason}") from error
    except SafetensorError as error:
        raise PopulationError(
            f"{member_id}: {path} holds no whole safetensors file ({one_line(error, 200)}), and no other kind of "
            "weights is read"
        ) from error
    if not tensors:
        raise PopulationError(f"{member_id}: {path} holds no tensors")
    return "adapter" if ADAPTER_CONFIG in texts else "full"


def checksum_of(member_id: str, path: Path) -> str:
    """SHA-256 of a file's content, in lower-case hexadecimal; PopulationError if it cannot be read."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PopulationError(f"{member_id}: cannot read its weights {path}: {error.strerror}") from error


def check_checksum(member: Member, found: str, where: str) -> None:
    """Raise PopulationError if ``found`` is not the SHA-256 that the population recorded; ``where`` was read."""
    if found != member.checksum:
        raise PopulationError(
            f"{member.id}: {where} has SHA-256 {found[:12]}..., but the population recorded {member.checksum[:12]}..."
        )


def read_weights(member: Member, population_file: Path) -> bytes:
    """A policy's weights from its file; PopulationError if it cannot be read or is not as recorded."""
    path = population_file.parent / member.name
    try:
        data = read_bytes(path, None)
    except OSError as error:
        raise PopulationError(f"{member.id}: cannot read its weights {path}: {error.strerror}") from error
    check_checksum(member, hashlib.sha256(data).hexdigest(), str(path))
    return data
