"""The weights of frozen policies: safetensors files, told by what is in them, verified before each use."""

from __future__ import annotations

import hashlib
from pathlib import Path

from safetensors import SafetensorError, safe_open

from opponents.population.member import Form, PopulationError

ADAPTER_CONFIG = "adapter_config"  # text in the header of an adapter's file: ``grpo_core.models.lora``


def form_of(who: str, path: Path) -> Form:
    """Whether a file holds full weights or an adapter's, by its content; its tensors are not read.

    Raises:
        PopulationError: not a whole safetensors file, or one without tensors. Nothing else is ever read as weights.
    """
    try:
        with safe_open(path, framework="np") as file:
            texts, tensors = file.metadata() or {}, len(file.keys())
    except OSError as error:  # the library's own have no number
        reason = "No such file or directory" if isinstance(error, FileNotFoundError) else str(error)
        raise PopulationError(f"{who}: cannot read its weights {path}: {reason}") from error
    except SafetensorError as error:
        raise PopulationError(
            f"{who}: {path} holds no whole safetensors file ({error}), and no other kind of weights is read"
        ) from error
    if not tensors:
        raise PopulationError(f"{who}: {path} holds no tensors")
    return "adapter" if ADAPTER_CONFIG in texts else "full"


def checksum_of(who: str, path: Path) -> str:
    """SHA-256 of a file's content, in lower-case hexadecimal; PopulationError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PopulationError(f"{who}: cannot read its weights {path}: {error.strerror}") from error


def check_weights(who: str, data: bytes, checksum: str, where: str) -> bytes:
    """``data``, if it is what was recorded.

    Raises:
        PopulationError: it has another SHA-256.
    """
    found = hashlib.sha256(data).hexdigest()
    if found != checksum:
        raise PopulationError(
            f"{who}: {where} has SHA-256 {found[:12]}..., but the population recorded {checksum[:12]}..."
        )
    return data
