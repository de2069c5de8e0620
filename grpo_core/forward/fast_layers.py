"""Faster fp32 kernels on the CPU for layers of transformers models.

torch uses MKL for linear layers, which runs AMD processors with AVX2 only. One core of an AMD EPYC (Zen 5, torch 2.13)
makes 98 GFLOP/s with MKL and 218 with oneDNN for 1024 x 128 x 384 (with backward 90 and 180). Intel
processors run AVX-512 with both.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

Projection = tuple[Tensor, Tensor | None]
"""Weight (out, in) and bias (out,) of a linear layer."""

_ONE_DNN = (
    torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    and torch.backends.cpu.get_cpu_capability() == "AVX512"
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
)


class OneDnnLinear(nn.Linear):
    """``nn.Linear`` on the CPU in fp32, differentiable once; its weights stay plain tensors and may be replaced."""

    def forward(self, input: Tensor) -> Tensor:
        """Compute ``input @ weight.T + bias`` over the last axis."""
        if torch.is_grad_enabled() and (input.requires_grad or self.weight.requires_grad):
            result: Tensor = _Product.apply(input, self.weight)  # type: ignore[no-untyped-call]
            return result if self.bias is None else result + self.bias
        rows = input.reshape(-1, input.shape[-1])
        out = _linear(_padded(rows), self.weight, self.bias)[: len(rows)]
        return out.view(*input.shape[:-1], len(self.weight))


class _Product(torch.autograd.Function):
    """``input @ weight.T`` and its two gradients through oneDNN."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(input, weight)
        rows = input.reshape(-1, input.shape[-1])
        return _linear(_padded(rows), weight, None)[: len(rows)].view(*input.shape[:-1], len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        input, weight = ctx.saved_tensors
        rows = gradient.reshape(-1, gradient.shape[-1])
        padded = _padded(rows)
        of_input = of_weight = None
        if ctx.needs_input_grad[0]:
            of_input = _linear(padded, weight.t(), None)[: len(rows)].view_as(input)
        if ctx.needs_input_grad[1]:
            of_weight = _linear(padded.t(), _padded(input.reshape(-1, input.shape[-1])).t(), None)
        return of_input, of_weight


def _padded(rows: Tensor) -> Tensor:
    """Pad rows (n, width) with zeros to ``padded_count(n)``."""
    missing = padded_count(len(rows)) - len(rows)
    return functional.pad(rows, (0, 0, 0, missing)) if missing else rows


def padded_count(rows: int) -> int:
    """Round a number of rows up, so that oneDNN sees few shapes.

    It compiles a kernel for every new shape and keeps the last thousand: over half a megabyte and 1.4 ms each, more
    than twice the time of the product itself with the thousand rows of a micro-batch.
    """
    step = 64 if rows <= 512 else 128
    return max(1, -(-rows // step)) * step


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None, epilogue: str = "none") -> Tensor:
    result: Tensor = torch.ops.mkldnn._linear_pointwise(input, weight, bias, epilogue, [], "")
    return result


def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute ``input @ weight.T + bias`` for rows (n, width); no gradient."""
    if not has_fast_layers(weight):
        return functional.linear(input, weight, bias)
    return _linear(_packed(input), weight, bias)[: len(input)]


def gated(input: Tensor, gate: Projection, up: Projection) -> Tensor:
    """Compute SwiGLU (arXiv 2002.05202), ``silu(gate(input)) * up(input)``, for rows (n, width); no gradient."""
    if not has_fast_layers(gate[0]):
        return functional.silu(functional.linear(input, *gate)) * functional.linear(input, *up)
    rows = _packed(input)
    opened = _linear(rows, *gate, "swish")
    result: Tensor = torch.ops.mkldnn._linear_pointwise.binary(rows, opened, *up, "mul")
    return result[: len(input)]


def _packed(rows: Tensor) -> Tensor:
    """Pad rows (n, width) of a decoding pass with zeros, in finer steps than the learner's; it halves memory."""
    step = 16 if len(rows) <= 512 else 64
    missing = -len(rows) % step
    return functional.pad(rows, (0, 0, 0, missing)) if missing else rows


def root_mean_square_norm(input: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Compute RMSNorm (arXiv 1910.07467), ``weight * input / sqrt(mean(input ** 2) + epsilon)``, over the last axis.

    It computes in float32 with fewer passes over memory than the formula; no gradient.
    """
    wide = input.float()
    squares = torch.linalg.vector_norm(wide, dim=-1, keepdim=True).square_()
    scaled: Tensor = wide * squares.div_(input.shape[-1]).add_(epsilon).rsqrt_()
    return scaled.to(input.dtype) * weight


def has_fast_layers(weight: Tensor) -> bool:
    """Return whether products with this weight are faster through oneDNN."""
    return _ONE_DNN and weight.device.type == "cpu" and weight.dtype == torch.float32


def use_fast_layers(model: nn.Module) -> int:
    """Switch an fp32 CPU model's linear layers to oneDNN where it is available; returns how many.

    Parameters and their names stay the same.
    """
    layers = [module for module in model.modules() if type(module) is nn.Linear and has_fast_layers(module.weight)]
    for layer in layers:
        layer.__class__ = OneDnnLinear
    return len(layers)
