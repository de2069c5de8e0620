"""Hidden states of rows that follow shared prompts: each prompt goes through the model once.

Rows attend to the keys and values of their prompt, and among themselves as always. It is what a cache of a prefix is
for generation, with gradients. Axes: G prompts, P padded length; B rows, L padded length of what follows the prompts;
T = G * P + B * L tokens side by side, prompts first; H hidden size, D head size; N chosen positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grpo_core.batching.shared_prompts import SharedPrompts
from grpo_core.forward.hidden_states import normed, rotated


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    prompts: tuple[int, int]  # G, P
    rows: tuple[int, int]  # B, L
    prompt_of_B: Tensor
    position_T: Tensor
    visible: Tensor  # (B, 1, L, P + L): what each token of a row attends to

    @classmethod
    def of(cls, prompts: SharedPrompts, input_ids: Tensor) -> _Layout:
        device, (count, width), (rows, length) = input_ids.device, prompts.ids.shape, input_ids.shape
        before_B = prompts.length_G[prompts.prompt_of_B]
        in_prompt, in_row = torch.arange(width, device=device), torch.arange(length, device=device)
        position_T = torch.cat([in_prompt.repeat(count), (before_B[:, None] + in_row).flatten()])
        seen_before = (in_prompt < before_B[:, None])[:, None].expand(rows, length, width)
        seen_here = (in_row <= in_row[:, None]).expand(rows, length, length)
        visible = torch.cat([seen_before, seen_here], -1)[:, None]
        return cls((count, width), (rows, length), prompts.prompt_of_B, position_T, visible)


def hidden_after_prompts(model: nn.Module, prompts: SharedPrompts, input_ids: Tensor, index_N: Tensor) -> Tensor:
    """Return the decoder's last hidden states (N, H) at flat positions of (B, L) ids, which follow their prompts.

    They equal those of ``hidden_at`` over whole rows, up to rounding. The model must run in parts (``runs_in_parts``).
    """
    decoder: Any = model.get_decoder()  # type: ignore[operator]
    layout = _Layout.of(prompts, input_ids)
    hidden_TH = decoder.embed_tokens(torch.cat([prompts.ids.flatten(), input_ids.flatten()]))
    cos, sin = (table[0, :, None] for table in decoder.rotary_emb(hidden_TH, layout.position_T[None]))
    first = prompts.ids.numel()  # of the rows' tokens
    for block in decoder.layers[:-1]:
        attention, normed_TH = block.self_attn, block.input_layernorm(hidden_TH)
        queries, keys = (_rotated_heads(attention, name, normed_TH, cos, sin) for name in "qk")
        values = _heads(attention, "v", normed_TH)
        of_prompts = _of_prompts(attention, layout, queries[:first], keys[:first], values[:first])
        mixed_TH = torch.cat([of_prompts, _of_rows(attention, layout, queries[first:], keys, values)])
        hidden_TH = _after_attention(block, hidden_TH, mixed_TH)
    last = decoder.layers[-1]
    attention, normed_TH = last.self_attn, last.input_layernorm(hidden_TH)
    queries = _rotated_heads(attention, "q", normed_TH[first:], cos[first:], sin[first:])
    keys, values = _rotated_heads(attention, "k", normed_TH, cos, sin), _heads(attention, "v", normed_TH)
    mixed_NH = _of_rows(attention, layout, queries, keys, values).index_select(0, index_N)
    hidden_NH: Tensor = decoder.norm(_after_attention(last, hidden_TH.index_select(0, first + index_N), mixed_NH))
    return hidden_NH


def _rotated_heads(attention: Any, name: str, normed_TH: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return rotated(normed(attention, f"{name}_norm", _heads(attention, name, normed_TH)), cos, sin)


def _heads(attention: Any, name: str, normed_TH: Tensor) -> Tensor:
    """Return queries, keys or values (T, heads, D)."""
    states: Tensor = getattr(attention, f"{name}_proj")(normed_TH)
    return states.view(len(normed_TH), -1, attention.head_dim)


def _in_rows(states: Tensor, shape: tuple[int, int]) -> Tensor:
    return states.view(*shape, *states.shape[1:])


def _of_prompts(attention: Any, layout: _Layout, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return (G * P, heads * D): the prompts attend to themselves."""
    mixed = F.scaled_dot_product_attention(
        _in_rows(queries, layout.prompts).transpose(1, 2),
        _in_rows(keys, layout.prompts).transpose(1, 2),
        _in_rows(values, layout.prompts).transpose(1, 2),
        is_causal=True,
        scale=attention.scaling,
        enable_gqa=attention.num_key_value_groups > 1,
    )
    return mixed.transpose(1, 2).flatten(0, 1).flatten(1)


def _of_rows(attention: Any, layout: _Layout, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return (B * L, heads * D): rows attend to their prompts and to themselves; keys and values are those of all."""

    def seen(states: Tensor) -> Tensor:
        first = layout.prompts[0] * layout.prompts[1]
        of_prompts = _in_rows(states[:first], layout.prompts).index_select(0, layout.prompt_of_B)
        return torch.cat([of_prompts, _in_rows(states[first:], layout.rows)], 1).transpose(1, 2)

    mixed = F.scaled_dot_product_attention(
        _in_rows(queries, layout.rows).transpose(1, 2),
        seen(keys),
        seen(values),
        attn_mask=layout.visible,
        scale=attention.scaling,
        enable_gqa=attention.num_key_value_groups > 1,
    )
    return mixed.transpose(1, 2).flatten(0, 1).flatten(1)


def _after_attention(block: Any, hidden: Tensor, mixed: Tensor) -> Tensor:
    out: Tensor = hidden + block.self_attn.o_proj(mixed)
    deeper: Tensor = block.mlp(block.post_attention_layernorm(out))
    return out + deeper
