"""Whether one player does better than another in a game of each, by exchanging games between them. Pure functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

DRAWS = 10_000
_CLOSE = 1e-9  # two values of the statistic that are the same but for rounding


def permutation_p_value(
    before: Mapping[str, Sequence[float]],
    after: Mapping[str, Sequence[float]],
    generator: np.random.Generator,
    draws: int = DRAWS,
) -> float:
    """Return the two-sided p-value of no difference: games of a stratum are exchanged between the players at random.

    The statistic is the probability of improvement, ties half, averaged over strata of equal weight: see
    ``improvement``. The p-value is the share of exchanges, the observed one counted among them, in which it lies as far
    from 1/2 as observed or further, so that it is valid for any number of games and at least ``1 / (draws + 1)``
    (Phipson and Smyth, Statistical Applications in Genetics and Molecular Biology 9, 2010). Where there are no more
    exchanges than ``draws``, it is the exact share of all of them.

    Raises ValueError where a stratum is empty or has values on one side only.
    """
    if before.keys() != after.keys() or not before:
        raise ValueError(f"these strata have values on one side only: {sorted(before.keys() ^ after.keys())}")
    if any(not before[name] or not after[name] for name in before):
        raise ValueError("a stratum is empty")
    exchanges = math.prod(math.comb(len(old) + len(after[name]), len(old)) for name, old in before.items())
    observed, drawn = 0.0, np.zeros(1 if exchanges <= draws else draws)
    for name, old in before.items():
        new = after[name]
        ranks = _middle_ranks(np.array([*new, *old], np.float64))
        least = len(new) * (len(new) + 1) / 2  # the sum of ranks of games that are all worse
        pairs = len(new) * len(old)
        observed += (ranks[: len(new)].sum() - least) / pairs
        if exchanges <= draws:
            sums = np.array([sum(chosen) for chosen in itertools.combinations(ranks.tolist(), len(new))])
            drawn = np.add.outer(drawn, (sums - least) / pairs).ravel()  # every exchange beside those of other strata
        else:
            chosen = generator.permuted(np.broadcast_to(ranks, (draws, len(ranks))), axis=1)[:, : len(new)]
            drawn += (chosen.sum(1) - least) / pairs
    half = len(before) / 2
    as_far = int((np.abs(drawn - half) >= abs(observed - half) - _CLOSE).sum())
    return as_far / exchanges if exchanges <= draws else (as_far + 1) / (draws + 1)


def _middle_ranks(values_N: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1, equal values with the mean of theirs, shape (N,)."""
    _, place, counts = np.unique(values_N, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    middle: NDArray[np.float64] = (last - (counts - 1) / 2)[place]
    return middle
