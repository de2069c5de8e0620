"""Whether differences are more than chance: p-values that agree with intervals, and Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from grpo_core.statistics.estimate import Estimate

LEAST_P = 1e-12  # smaller p-values are given as this one
_HALVINGS = 40


def p_value(at_level: Callable[[float], Estimate | None], null: float = 0.0) -> float:
    """Return the two-sided p-value of ``null``: 1 minus the level whose interval just reaches it.

    ``at_level`` returns the estimate with an interval of the level that it is given, for example
    ``lambda level: stratified_paired_difference(before, after, level=level)``. An interval of a higher level holds that
    of a lower one. So the p-value is below 0.05 if, and only if, the 95% interval excludes ``null``: the duality of
    tests and intervals (Lehmann and Romano, Testing Statistical Hypotheses, 3rd edition, section 3.5).

    It is 1 where there is no estimate or no interval, because such data cannot show a difference, and at least
    ``LEAST_P``.
    """

    def is_excluded(p: float) -> bool:
        estimate = at_level(1 - p)
        return estimate is not None and estimate.excludes(null)

    if is_excluded(LEAST_P):
        return LEAST_P
    low, high = math.log(LEAST_P), 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if is_excluded(math.exp(middle)):
            high = middle
        else:
            low = middle
    return math.exp(high)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values corrected for their number by Holm's step-down (Scandinavian Journal of Statistics 6, 1979).

    They come in the order given, and may depend on one another in any way. Call significant what is at most 0.05: then
    the probability that any true null hypothesis is called so is at most 5%. The i-th smallest of m becomes the largest
    of ``(m - j + 1) p_(j)`` over j <= i, at most 1.

    Raises ValueError where a p-value is not in [0, 1].
    """
    if not all(0 <= p <= 1 for p in p_values):
        raise ValueError("p-values lie between 0 and 1")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return tuple(adjusted)
