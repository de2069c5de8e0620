"""Where the tokens of one forward pass belong, when rows of unequal shares are packed into one sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from services.inference.kv_cache import KvCache

IntegerArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Consecutive rows attended together. Axes: B rows, N their tokens, Q longest share of a row, L positions."""

    rows: slice  # of the cache
    padded: Tensor  # (B * Q,) packed index of each padded query; where a row has fewer, its last one again
    real: Tensor | None  # (N,) padded index of each of the tokens, in packed order; None: none is padding
    length: int  # L: positions attended to
    mask: Tensor | None  # (B, 1, Q, L) additive; None: rows begin here and attend causally to this pass alone


@dataclass(frozen=True, slots=True, eq=False)
class RaggedPass:
    """N packed tokens of B rows: first the rows with a past, then those that begin."""

    cache: KvCache
    position_ids: Tensor  # (1, N)
    places: Tensor  # (N,) row * cache.positions + position
    segments: tuple[Segment, ...]  # together they cover all tokens, in order
    predicting: Tensor  # (B,) packed index of each row's last token, the only one whose output is read
    last: Segment  # those tokens alone


def plan_pass(
    cache: KvCache,
    first_row: int,
    starts: IntegerArray,
    counts: IntegerArray,
    device: torch.device,
    dtype: torch.dtype,
) -> RaggedPass:
    """The pass in which cache row ``first_row + b`` feeds ``counts[b]`` tokens from position ``starts[b]`` on.

    Rows that begin (start 0) must come after those with a past.
    """
    ends = np.cumsum(counts)
    rows = np.repeat(np.arange(len(counts)), counts)
    positions = np.arange(len(rows)) - np.repeat(ends - counts - starts, counts)
    going_on = int(np.count_nonzero(starts))
    segments = [
        _segment(first_row + part.start, starts[part], counts[part], (ends - counts)[part], device, dtype)
        for part in (slice(0, going_on), slice(going_on, len(counts)))
        if part.stop > part.start
    ]
    last_seen = starts + counts - 1
    length = int(last_seen.max()) + 1
    predicting = torch.from_numpy(ends - 1).to(device)
    every_row = slice(first_row, first_row + len(counts))
    return RaggedPass(
        cache=cache,
        position_ids=torch.from_numpy(positions[None]).to(device),
        places=torch.from_numpy((first_row + rows) * cache.positions + positions).to(device),
        segments=tuple(segments),
        predicting=predicting,
        last=Segment(every_row, predicting, None, length, _mask(last_seen[:, None], length, device, dtype)),
    )


def _segment(
    first_row: int,
    starts: IntegerArray,
    counts: IntegerArray,
    offsets: IntegerArray,
    device: torch.device,
    dtype: torch.dtype,
) -> Segment:
    """The rows whose tokens begin at packed ``offsets``."""
    widest, length = int(counts.max()), int((starts + counts).max())
    columns = np.minimum(np.arange(widest), counts[:, None] - 1)  # (B, Q)
    real = np.flatnonzero(np.arange(widest) < counts[:, None]) if (counts < widest).any() else None
    return Segment(
        rows=slice(first_row, first_row + len(counts)),
        padded=torch.from_numpy((offsets[:, None] + columns).reshape(-1)).to(device),
        real=None if real is None else torch.from_numpy(real).to(device),
        length=length,
        mask=_mask(starts[:, None] + columns, length, device, dtype) if starts.any() else None,
    )


def _mask(last_seen: IntegerArray, length: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """(B, 1, Q, L): 0 up to position ``last_seen[b, q]``, minus infinity after it."""
    unseen = torch.from_numpy(np.arange(length) > last_seen[:, None, :, None]).to(device)
    return torch.zeros(unseen.shape, dtype=dtype, device=device).masked_fill_(unseen, -torch.inf)
