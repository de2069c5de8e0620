"""Hidden states of rows that follow shared prompts: each prompt goes through the model once.

Rows attend to the keys and values of their prompt, and among themselves as always. It is what a cache of a prefix is
for generation, with gradients. Axes: G prompts, P padded length; B rows, L padded length of what follows the prompts;
T real tokens side by side, prompts first; H hidden size, D head size; N chosen positions. Only attention sees padding.
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
    real_T: Tensor  # place of each real token among the padded ones, prompts first
    packed: Tensor  # (G * P + B * L,) its inverse; padding repeats some token, which nothing attends to
    position_T: Tensor
    visible: Tensor  # (B, 1, L, P + L): what each token of a row attends to

    @classmethod
    def of(cls, prompts: SharedPrompts, input_ids: Tensor) -> _Layout:
        device, (count, width), (rows, length) = input_ids.device, prompts.ids.shape, input_ids.shape
        before_B = prompts.length_G[prompts.prompt_of_B]
        in_prompt, in_row = torch.arange(width, device=device), torch.arange(length, device=device)
        real = [in_prompt < prompts.length_G[:, None], in_row < prompts.length_B[:, None]]
        is_real = torch.cat([each.flatten() for each in real])
        real_T = is_real.nonzero()[:, 0]
        positions = torch.cat([in_prompt.repeat(count), (before_B[:, None] + in_row).flatten()])
        seen_before = (in_prompt < before_B[:, None])[:, None].expand(rows, length, width)
        seen_here = (in_row <= in_row[:, None]).expand(rows, length, length)
        return cls(
            (count, width),
            (rows, length),
            prompts.prompt_of_B,
            real_T,
            (is_real.cumsum(0) - 1).clamp_min(0),
            positions[real_T],
            torch.cat([seen_before, seen_here], -1)[:, None],
        )

    @property
    def first(self) -> int:
        """Padded places of the prompts, after which those of the rows begin."""
        return self.prompts[0] * self.prompts[1]


def hidden_after_prompts(model: nn.Module, prompts: SharedPrompts, input_ids: Tensor, index_N: Tensor) -> Tensor:
    """Return the decoder's last hidden states (N, H) at flat positions of (B, L) ids, which follow their prompts.

    They equal those of ``hidden_at`` over whole rows, up to rounding. The model must run in parts (``runs_in_parts``).
    """
    decoder: Any = model.get_decoder()  # type: ignore[operator]
    layout = _Layout.of(prompts, input_ids)
    ids = torch.cat([prompts.ids.flatten(), input_ids.flatten()])
    hidden_TH = decoder.embed_tokens(ids[layout.real_T])
    cos, sin = (table[0, :, None] for table in decoder.rotary_emb(hidden_TH, layout.position_T[None]))
    for block in decoder.layers[:-1]:
        attention, normed_TH = block.self_attn, block.input_layernorm(hidden_TH)
        queries, keys = (_rotated_heads(attention, name, normed_TH, cos, sin) for name in "qk")
        states = [each.index_select(0, layout.packed) for each in (queries, keys, _heads(attention, "v", normed_TH))]
        mixed = torch.cat([_of_prompts(attention, layout, *states), _of_rows(attention, layout, *states)])
        hidden_TH = _after_attention(block, hidden_TH, mixed.index_select(0, layout.real_T))
    last, rows = decoder.layers[-1], layout.packed[layout.first :]
    attention, normed_TH = last.self_attn, last.input_layernorm(hidden_TH)
    of_rows = [each.index_select(0, rows) for each in (normed_TH, cos, sin)]
    queries = _rotated_heads(attention, "q", *of_rows)
    keys, values = _rotated_heads(attention, "k", normed_TH, cos, sin), _heads(attention, "v", normed_TH)
    states = [queries, *(each.index_select(0, layout.packed) for each in (keys, values))]
    mixed_NH = _of_rows(attention, layout, *states).index_select(0, index_N)
    hidden_NH: Tensor = decoder.norm(_after_attention(last, hidden_TH.index_select(0, rows[index_N]), mixed_NH))
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

    def own(states: Tensor) -> Tensor:
        return _in_rows(states[: layout.first], layout.prompts).transpose(1, 2)

    mixed = F.scaled_dot_product_attention(
        own(queries),
        own(keys),
        own(values),
        is_causal=True,
        scale=attention.scaling,
        enable_gqa=attention.num_key_value_groups > 1,
    )
    return mixed.transpose(1, 2).flatten(0, 1).flatten(1)


def _of_rows(attention: Any, layout: _Layout, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return (B * L, heads * D): rows attend to their prompts and to themselves; keys and values are those of all."""

    def seen(states: Tensor) -> Tensor:
        of_prompts = _in_rows(states[: layout.first], layout.prompts).index_select(0, layout.prompt_of_B)
        return torch.cat([of_prompts, _in_rows(states[layout.first :], layout.rows)], 1).transpose(1, 2)

    mixed = F.scaled_dot_product_attention(
        _in_rows(queries[-layout.rows[0] * layout.rows[1] :], layout.rows).transpose(1, 2),
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
