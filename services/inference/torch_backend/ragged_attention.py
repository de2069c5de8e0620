"""Attention over packed rows of unequal lengths.

A pass is one packed sequence, so a model's linear layers see no padding; attention pads queries by row. It is also
registered with transformers as ``RAGGED_ATTENTION``, for models that ``plain_decoder`` does not support.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from services.inference.torch_backend.ragged_pass import RaggedPass, Segment

RAGGED_ATTENTION = "entente_ragged"

# On the CPU, plain products are faster than torch's kernel up to so many key heads and so many scores per row and head.
_FEW_KEY_HEADS = 2
_FEW_SCORES = 1 << 14


class HeadShape(NamedTuple):
    """Number and size of the attention heads."""

    heads: int  # H, of queries
    key_heads: int  # K, of keys and values; H is a multiple
    size: int  # D


def ragged_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001  (transformers' signature; the pass carries its own)
    scaling: float | None = None,
    *,
    ragged_pass: RaggedPass,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **_unused: Any,
) -> tuple[Tensor, None]:
    """Compute packed (1, N, H, D) from query (1, H, N, D) and key, value (1, K, N, D), for transformers.

    Raises ``NotImplementedError`` if the model has windowed or capped attention.
    """
    if sliding_window is not None or softcap is not None:
        raise NotImplementedError("the torch engine runs models with plain full attention only")
    shape = HeadShape(query.shape[1], key.shape[1], query.shape[3])
    queries, keys, values = (states[0].transpose(0, 1).flatten(1) for states in (query, key, value))
    stores = ragged_pass.cache.store(int(module.layer_idx), ragged_pass.places, keys, values)  # type: ignore[arg-type]
    attended = attend(queries, *stores, ragged_pass, shape, shape.size**-0.5 if scaling is None else scaling)
    return attended.view(1, -1, shape.heads, shape.size), None


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    ragged_pass: RaggedPass,
    shape: HeadShape,
    scaling: float,
    *,
    last: bool = False,
) -> Tensor:
    """Compute attention (N, H * D) from queries (N, H * D) and a layer's stores, which already hold the pass's tokens.

    With ``last``, queries and output are those of the predicting tokens alone, (B, H * D).
    """
    if last:
        return _attend(queries, keys, values, ragged_pass.last, shape, scaling)
    parts = [_attend(queries, keys, values, segment, shape, scaling) for segment in ragged_pass.segments]
    attended = parts[0] if len(parts) == 1 else torch.cat(parts)
    return attended if ragged_pass.order is None else attended.index_select(0, ragged_pass.order)


def _attend(
    queries: Tensor, keys: Tensor, values: Tensor, segment: Segment, shape: HeadShape, scaling: float
) -> Tensor:
    """Return the output (tokens of the segment, H * D)."""
    seen_keys, seen_values = (store[:, : segment.length][segment.rows] for store in (keys, values))
    if segment.padded is not None:
        queries = queries.index_select(0, segment.padded)
    by_row = queries.view(len(seen_keys), -1, shape.heads * shape.size)
    few = shape.key_heads <= _FEW_KEY_HEADS and by_row.shape[1] * segment.length <= _FEW_SCORES
    kernel = _products if few and queries.device.type == "cpu" else _torch_attention
    flat = kernel(by_row, seen_keys, seen_values, segment, shape, scaling)
    if (longest := segment.longest) is not None:
        theirs = by_row.index_select(0, longest.members).flatten(0, 1)
        flat.index_copy_(0, longest.padded, _attend(theirs, keys, values, longest.segment, shape, scaling))
    return flat if segment.real is None else flat.index_select(0, segment.real)


def _products(
    queries: Tensor, keys: Tensor, values: Tensor, segment: Segment, shape: HeadShape, scaling: float
) -> Tensor:
    """Compute attention as two batched products per key head; queries that share it are rows of one matrix."""
    heads, key_heads, size = shape
    rows, width, _ = queries.shape
    length, sharing = keys.shape[1], heads // key_heads
    mask = segment.mask_of_heads(sharing)
    if mask is None:
        causal = queries.new_full((width, length), -torch.inf).triu_(1)
        mask = causal.repeat_interleave(sharing, dim=0)[None]
    parts = []
    for query, key, value in zip(*(states.chunk(key_heads, -1) for states in (queries, keys, values)), strict=True):
        by_head = query.reshape(rows, width * sharing, size)
        scores = torch.baddbmm(mask, by_head, key.transpose(1, 2), alpha=scaling)
        parts.append(torch.bmm(scores.softmax(-1), value).view(rows * width, sharing * size))
    return parts[0] if key_heads == 1 else torch.cat(parts, -1)


def _torch_attention(
    queries: Tensor, keys: Tensor, values: Tensor, segment: Segment, shape: HeadShape, scaling: float
) -> Tensor:
    heads, key_heads, size = shape
    result = scaled_dot_product_attention(
        queries.view(*queries.shape[:2], heads, size).transpose(1, 2),
        keys.view(*keys.shape[:2], key_heads, size).transpose(1, 2),
        values.view(*values.shape[:2], key_heads, size).transpose(1, 2),
        attn_mask=segment.mask,
        is_causal=segment.mask is None,
        scale=scaling,
        enable_gqa=key_heads != heads,
    )
    return result.transpose(1, 2).reshape(-1, heads * size)


AttentionInterface.register(RAGGED_ATTENTION, ragged_attention)
