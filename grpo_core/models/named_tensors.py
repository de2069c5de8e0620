"""A model's tensors by name, and safetensors bytes with text in the header."""

from __future__ import annotations

import json
from collections.abc import Mapping

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor, nn

from grpo_core.errors import CheckpointError, one_line
from grpo_core.files import parse_json

# A safetensors file: the header's length (8 bytes, little-endian), the header (JSON), the tensors' bytes.
_LENGTH = 8
_LONGEST_HEADER = 100_000_000  # bytes, the library's own limit


def named_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and saved buffers by name; a tensor with several names (tied embeddings) has its first."""
    first: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        first.setdefault(id(tensor), (name, tensor))
    return dict(first.values())


def to_safetensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return one safetensors file in memory, with ``metadata`` in its header; equal inputs give equal bytes.

    The tensors may be on any device but must not share memory.
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
    """Return the tensors in safetensors bytes, on the CPU; they are views of the bytes and may be unaligned.

    Raises:
        CheckpointError: not safetensors.
    """
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load(bytes(payload))
    except (SafetensorError, ValueError, KeyError) as error:
        raise CheckpointError(f"weights are not safetensors: {one_line(error, 200)}") from error
    return tensors


def metadata_of(payload: bytes | memoryview) -> dict[str, str]:
    """Return the texts in the header of safetensors bytes; only the header is read.

    Raises:
        CheckpointError: there is no valid header.
    """
    view = memoryview(payload).cast("B")
    length = int.from_bytes(view[:_LENGTH], "little")
    if len(view) < _LENGTH or length > min(_LONGEST_HEADER, len(view) - _LENGTH):
        raise CheckpointError(f"weights are not safetensors: {len(view)} bytes without a whole header")
    try:
        header = parse_json(bytes(view[_LENGTH : _LENGTH + length]))
    except ValueError as error:
        raise CheckpointError("weights are not safetensors: their header is not JSON") from error
    texts = header.get("__metadata__", {}) if isinstance(header, dict) else None
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise CheckpointError("weights are not safetensors: their header is not a table with texts beside the tensors")
    return texts
