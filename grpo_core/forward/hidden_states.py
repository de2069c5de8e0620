"""Hidden states at chosen positions of right-padded rows.

Full blocks get no attention mask: in a causal model padding on the right cannot reach a real token, and attention takes
its fastest path. Axes: B rows, L padded length, H hidden size, N chosen positions, M most of them in one row.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Model types whose blocks are: x += attention(norm(x)); x += mlp(norm(x)), with rotary positions.
_PLAIN_BLOCKS = frozenset({"llama", "mistral", "qwen2", "qwen3"})


def hidden_at(model: nn.Module, input_ids: Tensor, index_N: Tensor) -> Tensor:
    """Return the decoder's last hidden states (N, H) at flat positions, row by row, of (B, L) right-padded ids.

    In models with plain blocks (Llama, Mistral, Qwen2, Qwen3) the last block computes queries, output and feed-forward
    only at the chosen positions, about a tenth of all. Other models run in full. Both give the same numbers.
    """
    decoder: Any = model.get_decoder()  # type: ignore[operator]
    if not runs_in_parts(decoder.config):
        hidden: Tensor = decoder(input_ids=input_ids, use_cache=False).last_hidden_state
        return hidden.flatten(0, 1).index_select(0, index_N)
    hidden = decoder.embed_tokens(input_ids)
    position_ids = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
    rotary = decoder.rotary_emb(hidden, position_ids)
    for block in decoder.layers[:-1]:
        hidden = block(hidden, attention_mask=None, position_ids=position_ids, position_embeddings=rotary)
    last_NH: Tensor = decoder.norm(_last_block_at(decoder.layers[-1], hidden, index_N, *rotary))
    return last_NH


def runs_in_parts(config: Any) -> bool:
    """Return whether the parts of a decoder's blocks may be computed one by one, with torch's attention."""
    return has_plain_blocks(config) and config._attn_implementation == "sdpa"


def has_plain_blocks(config: Any) -> bool:
    """Return whether a decoder of this configuration has ``_PLAIN_BLOCKS`` with full attention."""
    full = all(kind == "full_attention" for kind in getattr(config, "layer_types", None) or ())
    sliding = config.model_type == "mistral" and config.sliding_window is not None
    silu = getattr(config, "hidden_act", None) == "silu"
    return config.model_type in _PLAIN_BLOCKS and full and not sliding and silu


def _last_block_at(block: Any, hidden_BLH: Tensor, index_N: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    attention = block.self_attn
    rows, length, _ = hidden_BLH.shape
    heads = (-1, attention.head_dim)
    row_N, position_N = index_N // length, index_N % length

    normed_BLH = block.input_layernorm(hidden_BLH)
    keys = normed(attention, "k_norm", attention.k_proj(normed_BLH).view(rows, length, *heads))
    keys = rotated(keys, cos[:, :, None], sin[:, :, None])
    values = attention.v_proj(normed_BLH).view(rows, length, *heads)
    normed_NH = normed_BLH.flatten(0, 1).index_select(0, index_N)
    queries = normed(attention, "q_norm", attention.q_proj(normed_NH).view(len(index_N), *heads))
    queries = rotated(queries, cos[0, position_N, None], sin[0, position_N, None])

    # A row's chosen positions side by side, (B, M, heads, head_dim); unused slots attend to the first token.
    counts = torch.bincount(row_N, minlength=rows)
    slot_N = torch.arange(len(index_N), device=index_N.device) - (counts.cumsum(0) - counts)[row_N]
    width = int(counts.max())
    queries = queries.new_zeros(rows, width, *queries.shape[1:]).index_put((row_N, slot_N), queries)
    position_BM = position_N.new_zeros(rows, width).index_put((row_N, slot_N), position_N)
    visible = torch.arange(length, device=index_N.device) <= position_BM[:, None, :, None]
    mixed = F.scaled_dot_product_attention(
        queries.transpose(1, 2),
        keys.transpose(1, 2),
        values.transpose(1, 2),
        attn_mask=visible,
        scale=attention.scaling,
        enable_gqa=attention.num_key_value_groups > 1,
    )
    mixed_N = mixed.transpose(1, 2)[row_N, slot_N].flatten(1)

    out_NH: Tensor = hidden_BLH.flatten(0, 1).index_select(0, index_N) + attention.o_proj(mixed_N)
    deeper_NH: Tensor = block.mlp(block.post_attention_layernorm(out_NH))
    return out_NH + deeper_NH


def normed(attention: Any, name: str, states: Tensor) -> Tensor:
    """Apply the block's norm of that name to states (..., heads, head size) if it has one, as in Qwen3."""
    norm = getattr(attention, name, None)
    return states if norm is None else norm(states)


def rotated(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary position embeddings (arXiv 2104.09864) in the half-split layout of transformers."""
    first, second = states.chunk(2, dim=-1)
    return states * cos + torch.cat((-second, first), dim=-1) * sin
