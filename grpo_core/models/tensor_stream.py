"""Safetensors that are written tensor by tensor, so that what is sharded is never whole in memory twice.

The sizes are known before a tensor is gathered, so that the header comes first and each tensor is written in its place.
"""

from __future__ import annotations

import copy
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from grpo_core.models.fsdp import whole
from grpo_core.models.lora import has_adapters
from grpo_core.models.named_tensors import named_tensors
from grpo_core.models.pretrained import plain_items, plain_model

_LENGTH = 8  # bytes of the header's length; tensors begin at a multiple of it
_NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.int64: "I64", torch.float64: "F64"}

Shape = tuple[torch.dtype, tuple[int, ...]]


def gathered_payload(model: nn.Module) -> memoryview:
    """Return the sharded model's ``weights_payload``, with one tensor at a time beside it; all ranks gather."""
    shapes = _plain_shapes(model)
    header, size = _header(shapes)
    data = bytearray(len(header) + size)
    data[: len(header)] = header
    view, start = memoryview(data), len(header)
    for part in _parts(plain_items(model), shapes):
        view[start : start + len(part)] = part
        start += len(part)
    return view.toreadonly()


def save_gathered(model: nn.Module, folder: Path) -> None:
    """Write the sharded model's plain weights and configuration into a folder, one tensor after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = plain_model(model)
    shapes = _plain_shapes(model)
    header, _ = _header(shapes)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(header)
        for part in _parts(plain_items(model), shapes):
            file.write(part)
    config = copy.deepcopy(plain.config)
    config.architectures = [type(plain).__name__]  # which engines read
    config.save_pretrained(folder)
    if plain.can_generate() and plain.generation_config is not None:
        plain.generation_config.save_pretrained(folder)


def save_in_turn(tensors: Mapping[str, Tensor], file: Path | None) -> None:
    """Write tensors into a file, one after the other; sharded ones are gathered, so that all ranks must call this.

    Ranks without a file help to gather, and keep nothing.
    """
    # Wider numbers first, so that each tensor begins at a multiple of its numbers' size.
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    items = ((name, whole(tensor)) for name, tensor in ordered)
    if file is None:
        deque(items, maxlen=0)
        return
    shapes = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in ordered}
    with file.open("wb") as opened:
        opened.write(_header(shapes)[0])
        for part in _parts(items, shapes):
            opened.write(part)


def _plain_shapes(model: nn.Module) -> dict[str, Shape]:
    """Return type and shape of the ``plain_items``, in their order."""
    shapes: dict[str, Shape] = {}
    for path, tensor in named_tensors(plain_model(model)).items():
        if has_adapters(model) and ".lora_" in path:
            continue
        layer, found, leaf = path.rpartition(".base_layer.")
        shapes[f"{layer}.{leaf}" if found else path] = (tensor.dtype, tuple(tensor.shape))
    return shapes


def _header(shapes: Mapping[str, Shape]) -> tuple[bytes, int]:
    """Return a file's bytes up to the first tensor, and the size of all tensors."""
    table: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in shapes.items():
        start, end = end, end + dtype.itemsize * torch.Size(shape).numel()
        table[name] = {"dtype": _NAMES[dtype], "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH)
    return len(text).to_bytes(_LENGTH, "little") + text, end


def _parts(items: Iterable[tuple[str, Tensor]], shapes: Mapping[str, Shape]) -> Iterator[memoryview]:
    for (name, tensor), (expected, shape) in zip(items, shapes.items(), strict=True):
        if name != expected or (tensor.dtype, tuple(tensor.shape)) != shape:
            raise ValueError(f"gathered {name} {tuple(tensor.shape)} in the place of {expected} {shape}")
        plain = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        yield plain.numpy().data
