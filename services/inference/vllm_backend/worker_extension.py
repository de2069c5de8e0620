"""An extension of vLLM's workers: they replace a policy's weights in place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor


class WeightsExtension:
    """Mixed into vLLM's worker class (``worker_extension_cls``), which has ``reload_weights`` and ``model_runner``."""

    reload_weights: Any
    model_runner: Any

    def load_policy(self, source: bytes | memoryview | str) -> None:
        """Load the weights of a whole model from safetensors bytes, a safetensors file, or a folder of such files."""
        weights = _read(Path(source)) if isinstance(source, str) else safetensors.torch.load(bytes(source)).items()
        with torch.inference_mode():
            self.reload_weights(weights_iterator=weights)
            _pack_tied_head(self.model_runner.get_model())


def _read(path: Path) -> Iterator[tuple[str, Tensor]]:
    for file in sorted(path.glob("*.safetensors")) if path.is_dir() else [path]:
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118  (not a mapping)
                yield name, tensors.get_tensor(name)


def patch_cpu_adapters() -> None:
    """Apply no adapter to rows without one, on a CPU: vLLM's kernels there read slot -1, which is the last slot.

    The error shows only when all slots are in use: then the base's rows are computed with the last adapter.
    """
    from vllm.lora.punica_wrapper import punica_cpu

    if getattr(punica_cpu.bgmv_shrink, "patched", False):
        return
    shrink = punica_cpu.bgmv_shrink

    def patched_shrink(inputs: Tensor, weights: Tensor, output: Tensor, slots: Tensor, scaling: float = 1.0) -> None:
        shrink(inputs, weights, output, slots, scaling)
        output[slots[: output.shape[0]] < 0] = 0  # its expansion then adds nothing

    patched_shrink.patched = True  # type: ignore[attr-defined]
    punica_cpu.bgmv_shrink = patched_shrink


def _pack_tied_head(model: Any) -> None:
    """Pack a tied output head's weights again, on a CPU: a reload renews the packed copies of other heads only."""
    head, embedding = getattr(model, "lm_head", None), getattr(getattr(model, "model", None), "embed_tokens", None)
    head, embedding = getattr(head, "base_layer", head), getattr(embedding, "base_layer", embedding)
    if head is None or embedding is None or not hasattr(head, "cpu_linear"):
        return
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

    dispatch_cpu_unquantized_gemm(head, remove_weight=False)


# vLLM imports this module in every worker, before it loads a model.
patch_cpu_adapters()
