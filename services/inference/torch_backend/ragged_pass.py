"""The layout of one forward pass: rows with unequal numbers of tokens, packed into one sequence."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from services.inference.torch_backend.kv_cache import KvCache

IntegerArray = NDArray[np.int64]

# Tokens per row in the segment of rows with a past. Longer forced runs are rare (one row in fourteen on real sheets)
# and would pad the queries of all rows, so tokens before a row's last four are attended to in a segment of their own.
_WIDEST = 4

# Rows in a segment of their own are copied out of the cache; a position of theirs costs so many of the others'.
_COST_OF_COPIES = 3
_LEAST_SAVED = 0.15  # share of the positions, below which a further segment is not worth its calls


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Rows attended to together. Axes: B rows, N their tokens, Q most tokens of a row, L positions."""

    rows: slice | Tensor  # rows of the cache: consecutive ones, or (B,) any
    padded: Tensor | None  # (B * Q,) packed index of each padded query (shorter rows repeat their last token)
    real: Tensor | None  # (N,) padded index of each token, in packed order; None: there is no padding
    length: int  # L: positions attended to
    mask: Tensor | None  # (B, 1, Q, L) additive; None: rows begin here and attend causally to this pass alone
    longest: Longest | None = None
    _for_heads: dict[int, Tensor] = field(default_factory=dict, init=False)

    def mask_of_heads(self, heads: int) -> Tensor | None:
        """The mask (B, Q * heads, L) for as many queries at each token; laid out once, for all layers."""
        if self.mask is None:
            return None
        if heads not in self._for_heads:
            rows, _, width, length = self.mask.shape
            spread = self.mask.transpose(1, 2).expand(-1, -1, heads, -1)
            self._for_heads[heads] = spread.reshape(rows, width * heads, length)
        return self._for_heads[heads]


@dataclass(frozen=True, slots=True, eq=False)
class Longest:
    """The few longest rows of a segment, which ends before their last positions: they are attended to again."""

    members: Tensor  # (b,) their place among the segment's rows
    padded: Tensor  # (b * Q,) and that of their queries
    segment: Segment


@dataclass(frozen=True, slots=True, eq=False)
class RaggedPass:
    """N packed tokens of B rows: first the rows with a past, then those that begin."""

    cache: KvCache
    position_ids: Tensor  # (1, N)
    places: Tensor  # (N,) row * cache.positions + position
    segments: tuple[Segment, ...]  # together they cover all tokens
    order: Tensor | None  # (N,) index of each packed token in the segments' joined output; None: the same order
    predicting: Tensor  # (B,) packed index of each row's last token, the only one whose output is read
    last: Segment  # those tokens alone, already picked out (``padded`` is None)


def plan_pass(
    cache: KvCache, first_row: int, starts: IntegerArray, counts: IntegerArray, device: torch.device, dtype: torch.dtype
) -> RaggedPass:
    """Lay out a pass: cache row ``first_row + b`` feeds ``counts[b]`` tokens from ``starts[b]`` on; new rows last."""
    offsets = np.cumsum(counts) - counts
    rows = np.repeat(np.arange(len(counts)), counts)
    positions = np.arange(len(rows)) - np.repeat(offsets - starts, counts)
    last_seen = starts + counts - 1
    length = int(last_seen.max()) + 1
    predicting = torch.from_numpy(offsets + counts - 1).to(device)
    every_row = slice(first_row, first_row + len(counts))
    parts = [
        _segment(first_row, members, starts + skipped, taken, offsets + skipped, device, dtype)
        for members, skipped, taken in _split(starts, counts)
    ]
    joined = np.concatenate([tokens for _, tokens in parts])
    return RaggedPass(
        cache=cache,
        position_ids=torch.from_numpy(positions[None]).to(device),
        places=torch.from_numpy((first_row + rows) * cache.positions + positions).to(device),
        segments=tuple(segment for segment, _ in parts),
        order=torch.from_numpy(np.argsort(joined)).to(device) if (np.diff(joined) < 0).any() else None,
        predicting=predicting,
        last=_masked(Segment(every_row, None, None, length, None), first_row, last_seen[:, None], device, dtype),
    )


def _split(
    starts: IntegerArray, counts: IntegerArray
) -> list[tuple[slice | IntegerArray, IntegerArray | int, IntegerArray]]:
    """Split rows into segments (rows, their tokens in earlier segments, their tokens); rows that begin come last."""
    continuing = int(np.count_nonzero(starts))
    segments: list[tuple[slice | IntegerArray, IntegerArray | int, IntegerArray]] = []
    if continuing:
        before = np.maximum(counts - _WIDEST, 0)
        before[continuing:] = 0
        longer = np.flatnonzero(before)
        if len(longer):
            segments.append((longer, 0, before))
        segments.append((slice(0, continuing), before, counts - before))
    if continuing < len(counts):
        segments.append((slice(continuing, len(counts)), 0, counts))
    return segments


def _segment(
    first_row: int,
    members: slice | IntegerArray,
    starts: IntegerArray,
    counts: IntegerArray,
    offsets: IntegerArray,
    device: torch.device,
    dtype: torch.dtype,
) -> tuple[Segment, IntegerArray]:
    """Return the segment of rows whose tokens begin at packed ``offsets``, and the packed index of each output."""
    starts, counts, offsets = starts[members], counts[members], offsets[members]
    widest, length = int(counts.max()), int((starts + counts).max())
    columns = np.minimum(np.arange(widest), counts[:, None] - 1)  # (B, Q)
    padded = (offsets[:, None] + columns).reshape(-1)
    real = np.flatnonzero(np.arange(widest) < counts[:, None])
    segment = Segment(
        rows=slice(first_row + members.start, first_row + members.stop)
        if isinstance(members, slice)
        else torch.from_numpy(first_row + members).to(device),
        padded=torch.from_numpy(padded).to(device),
        real=torch.from_numpy(real).to(device) if len(real) < len(padded) else None,
        length=length,
        mask=None,
    )
    if isinstance(members, slice) and starts.any():
        segment = _masked(segment, first_row + members.start, starts[:, None] + columns, device, dtype)
    elif starts.any():
        segment = replace(segment, mask=_mask(starts[:, None] + columns, length, device, dtype))
    return segment, padded[real]


def _masked(
    segment: Segment, first_row: int, last_seen: IntegerArray, device: torch.device, dtype: torch.dtype
) -> Segment:
    """Mask a segment of consecutive rows from ``first_row`` on; ``last_seen`` (B, Q) are its queries' positions.

    On the CPU it ends before the last positions of its longest rows if they are few: all rows are as expensive as the
    longest one of their segment.
    """
    width = last_seen.shape[1]
    lengths = last_seen[:, -1] + 1
    bound = _bound(lengths) if device.type == "cpu" else segment.length
    mask = _mask(last_seen, bound, device, dtype)
    if bound == segment.length:
        return replace(segment, mask=mask)
    members = np.flatnonzero(lengths > bound)
    of_longest = _mask(last_seen[members], segment.length, device, dtype)
    longest = Longest(
        members=torch.from_numpy(members),
        padded=torch.from_numpy((members[:, None] * width + np.arange(width)).reshape(-1)),
        segment=Segment(torch.from_numpy(first_row + members), None, None, segment.length, of_longest),
    )
    return replace(segment, length=bound, mask=mask, longest=longest)


def _bound(lengths: IntegerArray) -> int:
    """Return the cheapest length to end a segment at, if longer rows are attended to again; or the greatest one."""
    ordered = np.sort(lengths)[::-1]
    costs = len(ordered) * ordered + _COST_OF_COPIES * np.arange(len(ordered)) * ordered[0]
    cheapest = int(costs.argmin())
    return int(ordered[cheapest] if costs[cheapest] <= (1 - _LEAST_SAVED) * costs[0] else ordered[0])


def _mask(last_seen: IntegerArray, length: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return (B, 1, Q, L): 0 up to position ``last_seen[b, q]``, minus infinity after it."""
    unseen = torch.from_numpy(np.arange(length) > last_seen[:, None, :, None]).to(device)
    return torch.zeros(unseen.shape, dtype=dtype, device=device).masked_fill_(unseen, -torch.inf)
