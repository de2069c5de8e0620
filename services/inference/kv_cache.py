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
class RaggedStep:
    """Where the N packed tokens of a pass belong. Axes: B rows, Q longest share of a row, L positions."""

    cache: KvCache
    rows: tuple[int, int]  # the consecutive cache rows of this pass, end excluded
    places: Tensor  # (N,) row * cache.positions + position
    padded: Tensor | None  # (B * Q,) packed index of each padded query, some token again where there is none
    packed: Tensor | None  # (N,) padded index of each packed query; both None where every row has one token
    length: int  # L: positions attended to
    mask: Tensor | None  # (B, 1, Q, L) additive; None: rows begin here and attend causally to this pass alone


def plan_step(
    cache: KvCache,
    first_row: int,
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    device: torch.device,
    dtype: torch.dtype,
) -> tuple[RaggedStep, Tensor]:
    """The plan of a pass in which row ``first_row + b`` feeds ``counts[b]`` tokens from ``starts[b]`` on.

    Either all rows begin (``starts`` all 0) or it is a step over rows with a past. Gives the plan and
    position ids (1, N).
    """
    rows = len(counts)
    widest = int(counts.max())
    ends = np.cumsum(counts)
    offsets = ends - counts
    within = np.arange(ends[-1]) - np.repeat(offsets, counts)
    row_of = np.repeat(np.arange(rows), counts)
    positions = np.repeat(starts, counts) + within
    length = int((starts + counts).max())
    places = (first_row + row_of) * cache.positions + positions
    padded = packed = None
    if widest > 1:
        columns = np.minimum(np.arange(widest)[None, :], counts[:, None] - 1)
        padded = torch.from_numpy((offsets[:, None] + columns).reshape(-1)).to(device)
        packed = torch.from_numpy(row_of * widest + within).to(device)
    mask = None
    if starts.any():
        last_seen = starts[:, None] + np.minimum(np.arange(widest)[None, :], counts[:, None] - 1)  # (B, Q)
        hidden = np.arange(length)[None, None, None, :] > last_seen[:, None, :, None]
        mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
        mask.masked_fill_(torch.from_numpy(hidden).to(device), -torch.inf)
    step = RaggedStep(
        cache=cache,
        rows=(first_row, first_row + rows),
        places=torch.from_numpy(places).to(device),
        padded=padded,
        packed=packed,
        length=length,
        mask=mask,
    )
    return step, torch.from_numpy(positions[None]).to(device)


def ragged_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001  (transformers' signature; the step carries its own)
    scaling: float | None = None,
    *,
    ragged_step: RaggedStep,
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
    step = ragged_step
    _, heads, tokens, head_dim = query.shape
    key_heads = key.shape[1]
    queries = query[0].transpose(0, 1).reshape(tokens, heads * head_dim)
    keys = key[0].transpose(0, 1).reshape(tokens, key_heads * head_dim)
    values = value[0].transpose(0, 1).reshape(tokens, key_heads * head_dim)
    kept_keys, kept_values = step.cache.store(int(module.layer_idx), step.places, keys, values)  # type: ignore[arg-type]
    if step.padded is not None:
        queries = queries.index_select(0, step.padded)
    first, end = step.rows
    rows = end - first
    attended = scaled_dot_product_attention(
        queries.view(rows, -1, heads, head_dim).transpose(1, 2),
        kept_keys[first:end, : step.length].view(rows, step.length, key_heads, head_dim).transpose(1, 2),
        kept_values[first:end, : step.length].view(rows, step.length, key_heads, head_dim).transpose(1, 2),
        attn_mask=step.mask,
        is_causal=step.mask is None,
        scale=scaling,
        enable_gqa=key_heads != heads,
    )
    flat = attended.transpose(1, 2).reshape(-1, heads * head_dim)
    if step.packed is not None:
        flat = flat.index_select(0, step.packed)
    return flat.view(1, tokens, heads, head_dim), None


AttentionInterface.register(RAGGED_ATTENTION, ragged_attention)


def _power_of_two(needed: int, least: int) -> int:
    return max(least, 1 << (needed - 1).bit_length())
