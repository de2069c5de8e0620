"""Keys and values of many sequences of unequal lengths, and the attention that runs over them.

All tokens of a step are packed into one sequence, so that a model's linear layers see no padding. Attention
is the one place that must know which token belongs to which row: ``ragged_attention`` is registered with
transformers under ``RAGGED_ATTENTION``, stores the new keys and values, pads queries by row and calls torch's
own kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

RAGGED_ATTENTION = "entente_ragged"

IntegerArray = NDArray[np.int64]


class KvCache:
    """Per layer, keys and values of shape (rows, positions, heads * head_dim); grows as it fills."""

    def __init__(self, layers: int) -> None:
        self.rows = 0
        self.positions = 0
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers

    def reserve(self, rows: int, positions: int) -> None:
        """Make room for so many rows and positions; what is stored stays."""
        if rows <= self.rows and positions <= self.positions:
            return
        self.rows = max(self.rows, _power_of_two(rows, 8))
        self.positions = max(self.positions, _power_of_two(positions, 64))
        for stores in (self.keys, self.values):
            for layer, old in enumerate(stores):
                if old is not None:
                    # Zeros and not garbage: masked positions are multiplied by zero, which must not meet a
                    # NaN.
                    new = old.new_zeros(self.rows, self.positions, old.shape[2])
                    new[: old.shape[0], : old.shape[1]] = old
                    stores[layer] = new

    def move(self, source: int, target: int, length: int) -> None:
        """Copy a row's first ``length`` positions over another row."""
        for store in (*self.keys, *self.values):
            if store is not None:
                store[target, :length] = store[source, :length]

    def store(self, layer: int, places: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write (N, heads * head_dim) at ``places`` = row * positions + position; give both whole stores."""
        kept_keys, kept_values = self.keys[layer], self.values[layer]
        if kept_keys is None or kept_values is None:
            kept_keys = self.keys[layer] = keys.new_zeros(self.rows, self.positions, keys.shape[1])
            kept_values = self.values[layer] = values.new_zeros(self.rows, self.positions, values.shape[1])
        kept_keys.view(-1, keys.shape[1]).index_copy_(0, places, keys)
        kept_values.view(-1, values.shape[1]).index_copy_(0, places, values)
        return kept_keys, kept_values


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Consecutive rows of a pass, attended together. Axes: B rows, N tokens, Q longest share of a row, L positions."""

    rows: slice  # of the cache
    tokens: slice  # of the packed sequence
    padded: Tensor | None  # (B * Q,) packed index of each padded query, within the segment; a row's last one again
    packed: Tensor | None  # (N,) padded index of each packed query; both None where every row has one token
    length: int  # L: positions attended to
    mask: Tensor | None  # (B, 1, Q, L) additive; None: rows begin here and attend causally to this pass alone


@dataclass(frozen=True, slots=True, eq=False)
class RaggedPass:
    """Where the packed tokens of one forward pass belong."""

    cache: KvCache
    places: Tensor  # (N,) row * cache.positions + position
    segments: tuple[Segment, ...]


def plan_pass(
    cache: KvCache,
    first_row: int,
    starts: IntegerArray,
    counts: IntegerArray,
    device: torch.device,
    dtype: torch.dtype,
) -> tuple[RaggedPass, Tensor]:
    """The pass in which cache row ``first_row + b`` feeds ``counts[b]`` tokens from position ``starts[b]`` on.

    Rows that begin (start 0) come after those with a past. Gives the pass and its position ids (1, N).
    """
    rows = np.repeat(np.arange(len(counts)), counts)
    positions = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts - starts, counts)
    places = (first_row + rows) * cache.positions + positions
    going_on = int(np.count_nonzero(starts))
    split = int(counts[:going_on].sum())
    segments = []
    if going_on:
        lengths = starts[:going_on], counts[:going_on]
        segments.append(_segment(*lengths, first_row, slice(0, split), device, dtype))
    if going_on < len(counts):
        lengths = starts[going_on:], counts[going_on:]
        segments.append(_segment(*lengths, first_row + going_on, slice(split, len(rows)), device, dtype))
    ragged_pass = RaggedPass(cache, torch.from_numpy(places).to(device), tuple(segments))
    return ragged_pass, torch.from_numpy(positions[None]).to(device)


def _segment(
    starts: IntegerArray,
    counts: IntegerArray,
    first_row: int,
    tokens: slice,
    device: torch.device,
    dtype: torch.dtype,
) -> Segment:
    widest, length = int(counts.max()), int((starts + counts).max())
    offsets = np.cumsum(counts) - counts
    columns = np.minimum(np.arange(widest), counts[:, None] - 1)  # (B, Q); a row's last token stands in for padding
    padded = packed = mask = None
    if widest > 1:
        rows = np.repeat(np.arange(len(counts)), counts)
        padded = torch.from_numpy((offsets[:, None] + columns).reshape(-1)).to(device)
        packed = torch.from_numpy(rows * widest + np.arange(len(rows)) - offsets[rows]).to(device)
    if starts.any():
        unseen = np.arange(length) > (starts[:, None] + columns)[:, None, :, None]
        mask = torch.zeros(unseen.shape, dtype=dtype, device=device)
        mask.masked_fill_(torch.from_numpy(unseen).to(device), -torch.inf)
    return Segment(slice(first_row, first_row + len(counts)), tokens, padded, packed, length, mask)


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

    Returns (1, N, H, D).

    Raises:
        NotImplementedError: the model wants windowed or capped attention.
    """
    if sliding_window is not None or softcap is not None:
        raise NotImplementedError("the torch engine runs models with plain full attention only")
    _, heads, _, head_dim = query.shape
    key_heads = key.shape[1]
    queries, keys, values = (_token_major(states) for states in (query, key, value))
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    kept_keys, kept_values = ragged_pass.cache.store(layer, ragged_pass.places, keys, values)
    attended = []
    for segment in ragged_pass.segments:
        own = queries[segment.tokens]
        if segment.padded is not None:
            own = own.index_select(0, segment.padded)
        segment_keys, segment_values = kept_keys[segment.rows], kept_values[segment.rows]
        rows, length = segment_keys.shape[0], segment.length
        result = scaled_dot_product_attention(
            own.view(rows, -1, heads, head_dim).transpose(1, 2),
            segment_keys[:, :length].view(rows, length, key_heads, head_dim).transpose(1, 2),
            segment_values[:, :length].view(rows, length, key_heads, head_dim).transpose(1, 2),
            attn_mask=segment.mask,
            is_causal=segment.mask is None,
            scale=scaling,
            enable_gqa=key_heads != heads,
        )
        flat = result.transpose(1, 2).reshape(-1, heads * head_dim)
        attended.append(flat if segment.packed is None else flat.index_select(0, segment.packed))
    joined = attended[0] if len(attended) == 1 else torch.cat(attended)
    return joined.view(1, -1, heads, head_dim), None


def _token_major(states: Tensor) -> Tensor:
    """(1, H, N, D) -> (N, H * D), without a copy where the memory lies so already."""
    _, heads, tokens, head_dim = states.shape
    return states[0].transpose(0, 1).reshape(tokens, heads * head_dim)


AttentionInterface.register(RAGGED_ATTENTION, ragged_attention)


def _power_of_two(needed: int, least: int) -> int:
    return max(least, 1 << (needed - 1).bit_length())
