"""Tensors by name: those of a model, and as safetensors bytes with text beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor, nn

from grpo_core.errors import CheckpointError

# A safetensors file: the header's length (8 bytes, little-endian), the header (JSON), the tensors' bytes.
_LENGTH = 8
_LONGEST_HEADER = 100_000_000  # bytes; safetensors reads no longer ones either


def named_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and saved buffers by name; a tensor with several names (tied embeddings) under its first."""
    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            tensors[name] = tensor
    return tensors


def to_safetensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """One safetensors file in memory; the same tensors and texts give the same bytes.

    Args:
        tensors: by name, on any device; none may share memory with another.
        metadata: texts by name, kept in the header.
    """
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    data = bytes(safetensors.torch.save(plain))
    if not metadata:
        return data
    # The library writes several texts in random order.
    start = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    header = {"__metadata__": dict(sorted(metadata.items())), **json.loads(data[_LENGTH:start])}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH)  # tensors begin at a multiple of eight
    return len(text).to_bytes(_LENGTH, "little") + text + data[start:]


def from_safetensors(payload: bytes | memoryview) -> dict[str, Tensor]:
    """The tensors of ``to_safetensors``' bytes, on the CPU; they keep the bytes alive and may be unaligned in them.

    Raises:
        CheckpointError: not safetensors.
    """
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load(bytes(payload))
    except (SafetensorError, ValueError, KeyError) as error:
        raise CheckpointError(f"weights are not safetensors: {str(error).splitlines()[0]}") from error
    return tensors


def metadata_of(payload: bytes | memoryview) -> dict[str, str]:
    """The texts in the header of safetensors bytes; nothing but the header is read.

    Raises:
        CheckpointError: there is no such header.
    """
    view = memoryview(payload).cast("B")
    length = int.from_bytes(view[:_LENGTH], "little")
    if len(view) < _LENGTH or length > min(_LONGEST_HEADER, len(view) - _LENGTH):
        raise CheckpointError(f"weights are not safetensors: {len(view)} bytes without a whole header")
    try:
        header = json.loads(bytes(view[_LENGTH : _LENGTH + length]))
    except (ValueError, RecursionError) as error:
        raise CheckpointError("weights are not safetensors: their header is not JSON") from error
    texts = header.get("__metadata__", {}) if isinstance(header, dict) else None
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise CheckpointError("weights are not safetensors: their header is not a table with texts beside the tensors")
    return texts
