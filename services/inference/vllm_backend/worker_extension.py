"""What vLLM's workers learn to do here: take a policy's weights in place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor


class WeightsExtension:
    """Mixed into vLLM's worker class (``worker_extension_cls``); ``reload_weights`` and ``model_runner`` are its."""

    reload_weights: Any
    model_runner: Any

    def load_policy(self, source: bytes | memoryview | str) -> None:
        """Take the weights of a whole model: safetensors bytes, a safetensors file, or a folder of such files."""
        weights = _from_files(Path(source)) if isinstance(source, str) else _from_bytes(source)
        with torch.inference_mode():
            self.reload_weights(weights_iterator=weights)
            _pack_tied_head(self.model_runner.get_model())


def _from_bytes(data: bytes | memoryview) -> Iterator[tuple[str, Tensor]]:
    yield from safetensors.torch.load(bytes(data)).items()


def _from_files(path: Path) -> Iterator[tuple[str, Tensor]]:
    for file in sorted(path.glob("*.safetensors")) if path.is_dir() else [path]:
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118  (not a mapping)
                yield name, tensors.get_tensor(name)


def mend_cpu_adapters() -> None:
    """Give rows without an adapter none, on a CPU: vLLM's kernels there read slot -1, which is the last one.

    Nothing shows until as many adapters are loaded as there are slots; then the base's rows are written under the last.
    """
    from vllm.lora.punica_wrapper import punica_cpu

    if getattr(punica_cpu.bgmv_shrink, "mended", False):
        return
    shrink = punica_cpu.bgmv_shrink

    def mended_shrink(inputs: Tensor, weights: Tensor, output: Tensor, slots: Tensor, scaling: float = 1.0) -> None:
        shrink(inputs, weights, output, slots, scaling)
        output[slots[: output.shape[0]] < 0] = 0  # what is expanded from it then adds nothing

    mended_shrink.mended = True  # type: ignore[attr-defined]
    punica_cpu.bgmv_shrink = mended_shrink


def _pack_tied_head(model: Any) -> None:
    """A CPU's output head multiplies by a packed copy of its weights; a reload renews all but that of a tied head.

    Its weights are the embedding's, which are not packed when they arrive.
    """
    head, embedding = getattr(model, "lm_head", None), getattr(getattr(model, "model", None), "embed_tokens", None)
    head, embedding = getattr(head, "base_layer", head), getattr(embedding, "base_layer", embedding)
    if head is None or embedding is None or not hasattr(head, "cpu_linear"):
        return
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

    dispatch_cpu_unquantized_gemm(head, remove_weight=False)


# Here, because vLLM imports this module in every worker, before anything is loaded.
mend_cpu_adapters()
