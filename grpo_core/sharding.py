"""Weights that are spread over several processes."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def whole(tensor: Tensor) -> Tensor:
    """The tensor itself, or all of a sharded one, on the CPU; every rank must ask for it at the same time."""
    sharded: Any = tensor
    if not hasattr(tensor, "full_tensor"):
        return tensor
    gathered: Tensor = sharded.to(sharded.device_mesh.device_type).full_tensor().cpu()
    return gathered
