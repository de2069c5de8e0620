"""Log-probabilities and entropies over a whole vocabulary without its full logits in memory.

The output embeddings are applied block by block, and again in the backward pass, as in cut cross-entropy (arXiv
2411.09009). Axes: H hidden size, N tokens, V vocabulary, K ids of one block.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from grpo_core.forward.fast_layers import has_fast_layers, linear, padded_count

# Logits of a block (tokens x ids): 4 MiB in fp32 on a CPU, where half and double were measured to be slower, and
# 256 MiB on a GPU, which needs large products.
_BLOCK_LOGITS = {"cpu": 1 << 20}
_BLOCK_LOGITS_ELSEWHERE = 1 << 26
_FEWEST_IDS = 512


def vocabulary_logprobs(
    hidden_NH: Tensor, weight_VH: Tensor, bias_V: Tensor | None, temperature_N: Tensor, chosen_N: Tensor
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities (N,) of the chosen ids and entropies (N,) in nats, float32, differentiable once.

    Logits are ``hidden @ weight.T + bias`` in the weight's dtype or autocast's; everything after is in float32.
    """
    device, tokens = hidden_NH.device.type, len(hidden_NH)
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight_VH.dtype
    missing = padded_count(tokens) - tokens if has_fast_layers(weight_VH) else 0
    with torch.autocast(device, enabled=False):
        chosen_logprob_N, entropy_N = _VocabularyHead.apply(  # type: ignore[no-untyped-call]
            F.pad(hidden_NH, (0, 0, 0, missing)),
            weight_VH,
            bias_V,
            F.pad(temperature_N.float(), (0, missing), value=1.0),
            F.pad(chosen_N, (0, missing)),
            dtype,
        )
    return chosen_logprob_N[:tokens], entropy_N[:tokens]


class _VocabularyHead(torch.autograd.Function):
    """Scores s = logit / temperature; log p = s - log Z; H = log Z - E[s]."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_NH: Tensor,
        weight_VH: Tensor,
        bias_V: Tensor | None,
        temperature_N: Tensor,
        chosen_N: Tensor,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        cast_NH = hidden_NH.to(dtype)
        chosen_score_N = torch.zeros_like(temperature_N)
        logs: list[Tensor] = []  # for each block the log sum of exp(s)
        means: list[Tensor] = []  # for each block the mean of s under its own softmax
        for block in _blocks(hidden_NH, weight_VH):
            score_NK = _scores(cast_NH, weight_VH, bias_V, temperature_N, block)
            column_N1, inside_N = _place(chosen_N, block)
            chosen_score_N += torch.where(inside_N, score_NK.gather(1, column_N1).squeeze(1), 0.0)
            top_N1 = score_NK.amax(1, keepdim=True)
            score_NK -= top_N1
            weighed_NK = score_NK.exp()
            total_N = weighed_NK.sum(1)
            logs.append(top_N1.squeeze(1) + total_N.log())
            means.append(top_N1.squeeze(1) + weighed_NK.mul_(score_NK).sum(1) / total_N)
        log_z_N = torch.stack(logs).logsumexp(0)
        expected_N = ((torch.stack(logs) - log_z_N).exp() * torch.stack(means)).sum(0)
        entropy_N = log_z_N - expected_N
        ctx.save_for_backward(hidden_NH, weight_VH, bias_V, temperature_N, chosen_N, log_z_N, entropy_N)
        ctx.dtype = dtype
        ctx.set_materialize_grads(False)
        return chosen_score_N - log_z_N, entropy_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_chosen_N: Tensor | None, of_entropy_N: Tensor | None) -> tuple[Tensor | None, ...]:
        """d log p(chosen) / ds = [chosen] - p, and dH / ds = -p (log p + H)."""
        hidden_NH, weight_VH, bias_V, temperature_N, chosen_N, log_z_N, entropy_N = ctx.saved_tensors
        cast_NH = hidden_NH.to(ctx.dtype)
        of_hidden_NH = torch.zeros_like(hidden_NH, dtype=torch.float32) if ctx.needs_input_grad[0] else None
        of_weight_VH = torch.empty_like(weight_VH) if ctx.needs_input_grad[1] else None
        of_bias_V = torch.empty_like(bias_V) if ctx.needs_input_grad[2] else None
        of_chosen_N = torch.zeros_like(log_z_N) if of_chosen_N is None else of_chosen_N
        for block in _blocks(hidden_NH, weight_VH):
            log_NK = _scores(cast_NH, weight_VH, bias_V, temperature_N, block).sub_(log_z_N[:, None])
            gradient_NK = log_NK.exp()
            if of_entropy_N is None:
                gradient_NK *= -of_chosen_N[:, None]
            else:
                bent_NK = log_NK.add_(entropy_N[:, None]).mul_(of_entropy_N[:, None])
                gradient_NK.mul_(bent_NK.add_(of_chosen_N[:, None])).neg_()
            column_N1, inside_N = _place(chosen_N, block)
            gradient_NK.scatter_add_(1, column_N1, torch.where(inside_N, of_chosen_N, 0.0)[:, None])
            cast_NK = gradient_NK.div_(temperature_N[:, None]).to(ctx.dtype)
            if of_hidden_NH is not None:
                of_hidden_NH += linear(cast_NK, weight_VH[block].to(ctx.dtype).t(), None)
            if of_weight_VH is not None:
                of_weight_VH[block] = linear(cast_NK.t(), cast_NH.t(), None)
            if of_bias_V is not None:
                of_bias_V[block] = gradient_NK.sum(0)
        of_hidden_NH = None if of_hidden_NH is None else of_hidden_NH.to(hidden_NH.dtype)
        return of_hidden_NH, of_weight_VH, of_bias_V, None, None, None


def _blocks(hidden_NH: Tensor, weight_VH: Tensor) -> list[slice]:
    budget = _BLOCK_LOGITS.get(hidden_NH.device.type, _BLOCK_LOGITS_ELSEWHERE)
    ids = max(_FEWEST_IDS, budget // max(1, len(hidden_NH)))
    return [slice(start, min(start + ids, len(weight_VH))) for start in range(0, len(weight_VH), ids)]


def _scores(cast_NH: Tensor, weight_VH: Tensor, bias_V: Tensor | None, temperature_N: Tensor, block: slice) -> Tensor:
    bias_K = None if bias_V is None else bias_V[block].to(cast_NH.dtype)
    logit_NK = linear(cast_NH, weight_VH[block].to(cast_NH.dtype), bias_K)
    return logit_NK.float().div_(temperature_N[:, None])


def _place(chosen_N: Tensor, block: slice) -> tuple[Tensor, Tensor]:
    """Return the column (N, 1) of each token's chosen id in the block, and whether the block has it (else any)."""
    inside_N = (chosen_N >= block.start) & (chosen_N < block.stop)
    return (chosen_N - block.start).clamp(0, block.stop - block.start - 1)[:, None], inside_N
