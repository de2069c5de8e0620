"""The number of parameters in a model's folder, from the headers of its files; no tensor is read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from grpo_core.errors import CheckpointError, one_line
from grpo_core.files import ANY_SIZE, check_regular

_ADAPTER = "adapter"  # the folder of adapters in a model's folder, as ``save_model`` writes it


class StoredSize(NamedTuple):
    """Numbers of parameters."""

    parameters: int  # of the model: adapters merged, or the base that specialists share
    trained: int  # those of the adapters if there are any, else all


def stored_size(folder: Path) -> StoredSize:
    """Count a model folder's parameters.

    Raises:
        CheckpointError: it has no weights, or a file is no whole safetensors file.
    """
    model = sum(map(_parameters, folder.glob("model*.safetensors")))
    if not model:
        raise CheckpointError(f"{folder} has no weights: no model.safetensors")
    adapters = sum(map(_parameters, (folder / _ADAPTER).rglob("*.safetensors")))
    return StoredSize(model, adapters or model)


def _parameters(path: Path) -> int:
    try:
        check_regular(path, ANY_SIZE)
        with safe_open(path, framework="np") as file:
            return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118 -- no mapping
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} is no whole safetensors file: {one_line(error, 200)}") from error
