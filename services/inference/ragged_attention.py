"""Attention over packed rows of unequal lengths, as an attention function of transformers.

All tokens of a pass are one packed sequence, so that a model's linear layers see no padding. Attention is the one
place that must know which token belongs to which row: it is registered with transformers under ``RAGGED_ATTENTION``,
stores the new keys and values, pads queries by row and calls torch's own kernel.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from services.inference.ragged_pass import RaggedPass, Segment

RAGGED_ATTENTION = "entente_ragged"


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
    """Attention as transformers calls it, on a packed sequence: query (1, H, N, D), key, value (1, K, N, D).

    Returns (1, N, H, D); in the last layer zeros wherever no token is predicted from.

    Raises:
        NotImplementedError: the model wants windowed or capped attention.
    """
    if sliding_window is not None or softcap is not None:
        raise NotImplementedError("the torch engine runs models with plain full attention only")
    layer, cache = int(module.layer_idx), ragged_pass.cache  # type: ignore[arg-type]
    queries = _token_major(query)
    kept = cache.store(layer, ragged_pass.places, _token_major(key), _token_major(value))
    shape = query.shape[1], key.shape[1], query.shape[3]
    if layer == cache.layers - 1:
        attended = _attend(queries, *kept, ragged_pass.last, shape, scaling)
        attended = torch.zeros_like(queries).index_copy_(0, ragged_pass.predicting, attended)
    else:
        parts = [_attend(queries, *kept, segment, shape, scaling) for segment in ragged_pass.segments]
        attended = parts[0] if len(parts) == 1 else torch.cat(parts)
        if ragged_pass.order is not None:
            attended = attended.index_select(0, ragged_pass.order)
    return attended.view(1, -1, query.shape[1], query.shape[3]), None


def _attend(
    queries: Tensor, keys: Tensor, values: Tensor, segment: Segment, shape: tuple[int, int, int], scaling: float | None
) -> Tensor:
    """A segment's output (its tokens, H * D) from packed queries (N, H * D) and whole stores."""
    heads, key_heads, head_dim = shape
    keys, values = (store[:, : segment.length][segment.rows] for store in (keys, values))
    rows = len(keys)
    result = scaled_dot_product_attention(
        queries.index_select(0, segment.padded).view(rows, -1, heads, head_dim).transpose(1, 2),
        keys.view(rows, segment.length, key_heads, head_dim).transpose(1, 2),
        values.view(rows, segment.length, key_heads, head_dim).transpose(1, 2),
        attn_mask=segment.mask,
        is_causal=segment.mask is None,
        scale=scaling,
        enable_gqa=key_heads != heads,
    )
    flat = result.transpose(1, 2).reshape(-1, heads * head_dim)
    return flat if segment.real is None else flat.index_select(0, segment.real)


def _token_major(states: Tensor) -> Tensor:
    """(1, H, N, D) -> (N, H * D), without a copy where the memory lies so already."""
    _, heads, tokens, head_dim = states.shape
    return states[0].transpose(0, 1).reshape(tokens, heads * head_dim)


AttentionInterface.register(RAGGED_ATTENTION, ragged_attention)
