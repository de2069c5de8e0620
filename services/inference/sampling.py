"""Sampling over ragged sets of admissible ids: all rows at once, each with its own random stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_GAMMA = 0x9E3779B97F4A7C15
_NUMBERS_TOGETHER = 1 << 18  # of whole vocabularies; more leave the processor's cache
_NOT_FINITE = "the model's logits are not finite: its weights are damaged or have diverged"


def stream(seed: int) -> int:
    """Return the 64-bit start of a request's random stream; neighbouring seeds give unrelated streams."""
    return int(_mix(np.array([(seed + 1) * _GAMMA % 2**64], np.uint64))[0])


def uniforms(streams: NDArray[np.uint64], counters: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return numbers in [0, 1): the ``counters[b]``-th of each stream (SplitMix64; Steele et al., OOPSLA 2014)."""
    bits = _mix(streams + (counters + np.uint64(1)) * np.uint64(_GAMMA)) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def sample(
    logits: NDArray[np.float32],
    admissible: Sequence[NDArray[np.int32]],
    temperatures: NDArray[np.float64],
    randoms: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Sample one token per row from softmax(logits / temperature) over the row's admissible ids.

    ``logits`` are (B, V), ``admissible`` B non-empty arrays of ids. Temperature 0 takes the likeliest id (the lowest of
    equals), with log-probabilities at 1. Each row's distribution function is inverted at ``randoms`` (B,) in [0, 1).
    Returns the tokens (B,) and their log-probabilities (B,) over the same ids. Raises ``FloatingPointError`` for logits
    that are not finite.
    """
    whole = np.fromiter((len(ids) == logits.shape[1] for ids in admissible), np.bool_, len(admissible))
    if not whole.any():
        return _sample_among(logits, admissible, temperatures, randoms)
    tokens, logprobs = np.empty(len(admissible), np.int32), np.empty(len(admissible), np.float32)
    rows = np.flatnonzero(whole)
    tokens[rows], logprobs[rows] = _sample_from_all(logits[rows], temperatures[rows], randoms[rows])
    if len(others := np.flatnonzero(~whole)):
        tokens[others], logprobs[others] = _sample_among(
            logits[others], [admissible[row] for row in others], temperatures[others], randoms[others]
        )
    return tokens, logprobs


def _sample_from_all(
    logits: NDArray[np.float32], temperatures: NDArray[np.float64], randoms: NDArray[np.float64]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """``sample`` where every id is admissible, without an index of rows times ids."""
    tokens, logprobs = np.empty(len(logits), np.int32), np.empty(len(logits), np.float32)
    greedy = temperatures == 0
    divisors = np.where(greedy, 1.0, temperatures)
    together = max(1, _NUMBERS_TOGETHER // logits.shape[1])
    for start in range(0, len(logits), together):
        rows = slice(start, start + together)
        scaled = logits[rows].astype(np.float64) / divisors[rows, None]
        highest = scaled.max(axis=1)
        if not np.isfinite(highest).all():
            raise FloatingPointError(_NOT_FINITE)
        cumulative = np.cumsum(np.exp(scaled - highest[:, None]), axis=1)
        total = cumulative[:, -1]
        passed = (cumulative <= (randoms[rows] * total)[:, None]).sum(axis=1)
        chosen = np.where(greedy[rows], scaled.argmax(axis=1), np.minimum(passed, scaled.shape[1] - 1))
        tokens[rows] = chosen
        logprobs[rows] = scaled[np.arange(len(chosen)), chosen] - highest - np.log(total)
    return tokens, logprobs


def _sample_among(
    logits: NDArray[np.float32],
    admissible: Sequence[NDArray[np.int32]],
    temperatures: NDArray[np.float64],
    randoms: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    ids = np.concatenate(admissible)
    sizes = np.fromiter(map(len, admissible), np.intp, len(admissible))
    ends = np.cumsum(sizes)
    starts = ends - sizes
    row_of = np.repeat(np.arange(len(sizes)), sizes)
    greedy = temperatures == 0
    scaled = logits[row_of, ids].astype(np.float64) / np.where(greedy, 1.0, temperatures)[row_of]
    highest = np.maximum.reduceat(scaled, starts)
    if not np.isfinite(highest).all():
        raise FloatingPointError(_NOT_FINITE)
    weights = np.exp(scaled - highest[row_of])
    totals = np.add.reduceat(weights, starts)
    cumulative = np.cumsum(weights)
    before = cumulative[starts] - weights[starts]
    # Rounding of the running sum in the last ulp could select a neighbouring row's id; the clip prevents it.
    chosen = np.clip(np.searchsorted(cumulative, before + randoms * totals, side="right"), starts, ends - 1)
    if greedy.any():
        at_peak = np.where(scaled == highest[row_of], np.arange(len(ids)), len(ids))
        chosen = np.where(greedy, np.minimum.reduceat(at_peak, starts), chosen)
    logprobs = scaled[chosen] - highest - np.log(totals)
    return ids[chosen], logprobs.astype(np.float32)


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
