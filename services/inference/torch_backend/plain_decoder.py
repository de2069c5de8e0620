"""The forward pass of Llama-like models over packed rows, in as few kernel calls as possible.

A small policy spends much of its time on the overhead of calls. So queries, keys and values come from one product,
queries and keys are normed and rotated together, and the last block computes its output only where a token is
predicted (one position in seventy of a prompt). Axes: N packed tokens, B rows, H query heads, K key heads, D head size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from grpo_core.forward.fast_layers import Projection, gated, linear, root_mean_square_norm
from grpo_core.forward.hidden_states import rotated
from services.inference.torch_backend.ragged_attention import HeadShape, attend
from services.inference.torch_backend.ragged_pass import RaggedPass

# Rotary scalings whose angles depend on the longest sequence so far, not on the position alone.
_DYNAMIC_ROPE = frozenset({"dynamic", "longrope"})


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    before_attention: Tensor  # weight of the norm
    qkv: Projection  # queries, keys and values, (H + 2K) * D outputs
    head_norms: Tensor | None  # (H + K, D), of queries and keys
    out: Projection
    before_feed_forward: Tensor
    gate: Projection
    up: Projection
    down: Projection


@dataclass(frozen=True, slots=True, eq=False)
class PlainWeights:
    """One version of a model's weights, laid out for ``PlainDecoder``."""

    embeddings: Tensor
    blocks: tuple[_Block, ...]
    last_norm: Tensor
    head: Projection


class PlainDecoder:
    """Logits of a Llama, Mistral, Qwen2 or Qwen3 model under any weights, equal to those of transformers."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Take the shape and rotary positions of a model whose blocks are plain (``has_plain_blocks``)."""
        decoder: Any = model.get_decoder()
        config = decoder.config
        attention = decoder.layers[0].self_attn
        self._shape = HeadShape(config.num_attention_heads, config.num_key_value_heads, attention.head_dim)
        self._scaling = float(attention.scaling)
        self._epsilon = float(config.rms_norm_eps)
        self._layers = len(decoder.layers)
        self._rotary = decoder.rotary_emb
        self._dynamic_rope = self._rotary.rope_type in _DYNAMIC_ROPE
        self._angles = torch.empty(2, 0, 1, self._shape.size)  # cosines and sines by position

    def prepare(self, weights: Mapping[str, Tensor]) -> PlainWeights:
        """Lay out weights with the model's names and shapes; most tensors are shared, not copied."""

        def projection(name: str) -> Projection:
            return weights[f"{name}.weight"], weights.get(f"{name}.bias")

        blocks = []
        for layer in range(self._layers):
            prefix = f"model.layers.{layer}"
            parts = [projection(f"{prefix}.self_attn.{name}_proj") for name in "qkv"]
            biases = [bias for _, bias in parts if bias is not None]
            block = _Block(
                before_attention=weights[f"{prefix}.input_layernorm.weight"],
                qkv=(torch.cat([weight for weight, _ in parts]), torch.cat(biases) if biases else None),
                head_norms=self._head_norms(weights, f"{prefix}.self_attn"),
                out=projection(f"{prefix}.self_attn.o_proj"),
                before_feed_forward=weights[f"{prefix}.post_attention_layernorm.weight"],
                gate=projection(f"{prefix}.mlp.gate_proj"),
                up=projection(f"{prefix}.mlp.up_proj"),
                down=projection(f"{prefix}.mlp.down_proj"),
            )
            blocks.append(block)
        embeddings = weights["model.embed_tokens.weight"]
        tied = "lm_head.weight" not in weights
        head = (embeddings, None) if tied else projection("lm_head")
        return PlainWeights(embeddings, tuple(blocks), weights["model.norm.weight"], head)

    def _head_norms(self, weights: Mapping[str, Tensor], prefix: str) -> Tensor | None:
        query_norm, key_norm = (weights.get(f"{prefix}.{name}.weight") for name in ("q_norm", "k_norm"))
        if query_norm is None or key_norm is None:
            return None
        heads, key_heads, _ = self._shape
        return torch.cat([query_norm.expand(heads, -1), key_norm.expand(key_heads, -1)])

    def logits(self, weights: PlainWeights, input_ids: Tensor, ragged_pass: RaggedPass) -> Tensor:
        """Return logits (B, V) after each row's last token; ``input_ids`` (N,) are the pass's tokens."""
        hidden = weights.embeddings.index_select(0, input_ids)
        cos, sin = self._rotations(hidden, ragged_pass)
        for layer, block in enumerate(weights.blocks[:-1]):
            normed = root_mean_square_norm(hidden, block.before_attention, self._epsilon)
            attended = self._attention(layer, block, linear(normed, *block.qkv), cos, sin, ragged_pass)
            hidden = self._feed_forward(block, hidden, attended)
        hidden = self._last(weights.blocks[-1], hidden, cos, sin, ragged_pass)
        return linear(root_mean_square_norm(hidden, weights.last_norm, self._epsilon), *weights.head)

    def _rotations(self, hidden: Tensor, ragged_pass: RaggedPass) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of the tokens' positions, (N, 1, D)."""
        positions, length = ragged_pass.position_ids, ragged_pass.cache.positions
        if self._dynamic_rope:
            cos, sin = self._rotary(hidden, positions)
            return cos[0, :, None], sin[0, :, None]
        if self._angles.shape[1] < length:
            tables = self._rotary(hidden, torch.arange(length, device=hidden.device)[None])
            self._angles = torch.stack(tables).transpose(1, 2)
        return self._angles[0].index_select(0, positions[0]), self._angles[1].index_select(0, positions[0])

    def _attention(
        self, layer: int, block: _Block, qkv: Tensor, cos: Tensor, sin: Tensor, ragged_pass: RaggedPass
    ) -> Tensor:
        heads, key_heads, size = self._shape
        keys_at, values_at = heads * size, (heads + key_heads) * size  # columns where they begin
        rotated_heads = self._norm_and_rotate(qkv[:, :values_at], block.head_norms, cos, sin)
        stores = ragged_pass.cache.store(layer, ragged_pass.places, rotated_heads[:, keys_at:], qkv[:, values_at:])
        return attend(rotated_heads[:, :keys_at], *stores, ragged_pass, self._shape, self._scaling)

    def _last(self, block: _Block, hidden: Tensor, cos: Tensor, sin: Tensor, ragged_pass: RaggedPass) -> Tensor:
        """Store all keys and values; return the last block's output (B, hidden size) at the predicting tokens."""
        heads, key_heads, size = self._shape
        predicting, norms = ragged_pass.predicting, block.head_norms
        weight, bias = block.qkv
        of_queries, of_others = slice(0, heads * size), slice(heads * size, None)
        normed = root_mean_square_norm(hidden, block.before_attention, self._epsilon)
        keys_values = linear(normed, weight[of_others], None if bias is None else bias[of_others])
        keys = self._norm_and_rotate(
            keys_values[:, : key_heads * size], None if norms is None else norms[heads:], cos, sin
        )
        values = keys_values[:, key_heads * size :]
        stores = ragged_pass.cache.store(self._layers - 1, ragged_pass.places, keys, values)
        queries = self._norm_and_rotate(
            linear(normed.index_select(0, predicting), weight[of_queries], None if bias is None else bias[of_queries]),
            None if norms is None else norms[:heads],
            cos.index_select(0, predicting),
            sin.index_select(0, predicting),
        )
        attended = attend(queries, *stores, ragged_pass, self._shape, self._scaling, last=True)
        return self._feed_forward(block, hidden.index_select(0, predicting), attended)

    def _norm_and_rotate(self, states: Tensor, norms: Tensor | None, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotate states (N, heads * D) by position; norm them by head first where the model has such norms."""
        by_head = states.view(len(states), -1, self._shape.size)
        if norms is not None:
            by_head = root_mean_square_norm(by_head, norms, self._epsilon)
        return rotated(by_head, cos, sin).flatten(1)

    def _feed_forward(self, block: _Block, hidden: Tensor, attended: Tensor) -> Tensor:
        """Return the residual stream after a block."""
        hidden = linear(attended, *block.out).add_(hidden)
        normed = root_mean_square_norm(hidden, block.before_feed_forward, self._epsilon)
        return linear(gated(normed, block.gate, block.up), *block.down).add_(hidden)
