"""The forward pass of Llama's kind of model over packed rows, in as few calls as possible.

A small policy spends much of its time on calls: here queries, keys and values come from one product, queries and keys
are normed and rotated together, and the last block computes its output only where a token is predicted, which is one
position in seventy of a prompt. Axes: N packed tokens, B rows, H query heads, K key heads, D head size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from grpo_core.forward.fast_layers import Projection, gated, linear, root_mean_square_norm
from grpo_core.forward.hidden_states import has_plain_blocks, rotated
from services.inference.torch_backend.ragged_attention import HeadShape, attend
from services.inference.torch_backend.ragged_pass import RaggedPass

# Rotary scalings whose angles depend on the longest sequence so far, not on the position alone.
_GROWING = frozenset({"dynamic", "longrope"})


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    before_attention: Tensor  # norm's weight
    mixed: Projection  # queries, keys and values, (H + 2K) * D outputs
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
    """Logits of a Llama, Mistral, Qwen2 or Qwen3 model; gives what transformers gives, under any weights."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Take the model's shape and rotary positions.

        Raises:
            ValueError: its blocks are built otherwise.
        """
        decoder: Any = model.get_decoder()
        config = decoder.config
        if not has_plain_blocks(config):
            raise ValueError(f"{type(model).__name__} is not of Llama's kind")
        attention = decoder.layers[0].self_attn
        self._shape = HeadShape(config.num_attention_heads, config.num_key_value_heads, attention.head_dim)
        self._scaling = float(attention.scaling)
        self._epsilon = float(config.rms_norm_eps)
        self._layers = len(decoder.layers)
        self._rotary = decoder.rotary_emb
        self._grows = self._rotary.rope_type in _GROWING
        self._angles = torch.empty(2, 0, 1, self._shape.size)  # cosines and sines by position

    def prepare(self, weights: Mapping[str, Tensor]) -> PlainWeights:
        """Lay out weights of the model's names and shapes; most are shared, not copied."""

        def projection(name: str) -> Projection:
            return weights[f"{name}.weight"], weights.get(f"{name}.bias")

        blocks = []
        for layer in range(self._layers):
            prefix = f"model.layers.{layer}"
            parts = [projection(f"{prefix}.self_attn.{name}_proj") for name in "qkv"]
            biases = [bias for _, bias in parts if bias is not None]
            block = _Block(
                before_attention=weights[f"{prefix}.input_layernorm.weight"],
                mixed=(torch.cat([weight for weight, _ in parts]), torch.cat(biases) if biases else None),
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
        of_query, of_key = (weights.get(f"{prefix}.{name}.weight") for name in ("q_norm", "k_norm"))
        if of_query is None or of_key is None:
            return None
        heads, key_heads, _ = self._shape
        return torch.cat([of_query.expand(heads, -1), of_key.expand(key_heads, -1)])

    def logits(self, weights: PlainWeights, input_ids: Tensor, ragged_pass: RaggedPass) -> Tensor:
        """(B, V) after each row's last token; ``input_ids`` (N,) are the pass's tokens."""
        hidden = weights.embeddings.index_select(0, input_ids)
        cos, sin = self._rotations(hidden, ragged_pass)
        for layer, block in enumerate(weights.blocks[:-1]):
            normed = root_mean_square_norm(hidden, block.before_attention, self._epsilon)
            attended = self._attention(layer, block, linear(normed, *block.mixed), cos, sin, ragged_pass)
            hidden = self._feed_forward(block, hidden, attended)
        hidden = self._last(weights.blocks[-1], hidden, cos, sin, ragged_pass)
        return linear(root_mean_square_norm(hidden, weights.last_norm, self._epsilon), *weights.head)

    def _rotations(self, hidden: Tensor, ragged_pass: RaggedPass) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the tokens' positions, (N, 1, D)."""
        positions, length = ragged_pass.position_ids, ragged_pass.cache.positions
        if self._grows:
            cos, sin = self._rotary(hidden, positions)
            return cos[0, :, None], sin[0, :, None]
        if self._angles.shape[1] < length:
            tables = self._rotary(hidden, torch.arange(length, device=hidden.device)[None])
            self._angles = torch.stack(tables).transpose(1, 2)
        return self._angles[0].index_select(0, positions[0]), self._angles[1].index_select(0, positions[0])

    def _attention(
        self, layer: int, block: _Block, mixed: Tensor, cos: Tensor, sin: Tensor, ragged_pass: RaggedPass
    ) -> Tensor:
        heads, key_heads, size = self._shape
        of_queries, of_values = heads * size, (heads + key_heads) * size  # where these end and those begin
        turned = self._turned(mixed[:, :of_values], block.head_norms, cos, sin)
        kept = ragged_pass.cache.store(layer, ragged_pass.places, turned[:, of_queries:], mixed[:, of_values:])
        return attend(turned[:, :of_queries], *kept, ragged_pass, self._shape, self._scaling)

    def _last(self, block: _Block, hidden: Tensor, cos: Tensor, sin: Tensor, ragged_pass: RaggedPass) -> Tensor:
        """The last block's output (B, hidden size): keys and values of all tokens, the rest where predicted from."""
        heads, key_heads, size = self._shape
        predicting, norms = ragged_pass.predicting, block.head_norms
        weight, bias = block.mixed
        here, others = slice(0, heads * size), slice(heads * size, None)  # of the outputs: queries, keys and values
        normed = root_mean_square_norm(hidden, block.before_attention, self._epsilon)
        mixed = linear(normed, weight[others], None if bias is None else bias[others])
        keys = self._turned(mixed[:, : key_heads * size], None if norms is None else norms[heads:], cos, sin)
        kept = ragged_pass.cache.store(self._layers - 1, ragged_pass.places, keys, mixed[:, key_heads * size :])
        queries = self._turned(
            linear(normed.index_select(0, predicting), weight[here], None if bias is None else bias[here]),
            None if norms is None else norms[:heads],
            cos.index_select(0, predicting),
            sin.index_select(0, predicting),
        )
        attended = attend(queries, *kept, ragged_pass, self._shape, self._scaling, last=True)
        return self._feed_forward(block, hidden.index_select(0, predicting), attended)

    def _turned(self, states: Tensor, norms: Tensor | None, cos: Tensor, sin: Tensor) -> Tensor:
        """States (N, heads * D) normed by head, where the model does, and rotated by position."""
        by_head = states.view(len(states), -1, self._shape.size)
        if norms is not None:
            by_head = root_mean_square_norm(by_head, norms, self._epsilon)
        return rotated(by_head, cos, sin).flatten(1)

    def _feed_forward(self, block: _Block, hidden: Tensor, attended: Tensor) -> Tensor:
        """The residual stream after a block."""
        hidden = linear(attended, *block.out).add_(hidden)
        normed = root_mean_square_norm(hidden, block.before_feed_forward, self._epsilon)
        return linear(gated(normed, block.gate, block.up), *block.down).add_(hidden)
