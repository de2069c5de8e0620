"""Differences of two players or treatments over pairs: the same question, or the same table. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from grpo_core.statistics.estimate import UNBOUNDED, Estimate, Range, student_estimate
from grpo_core.statistics.means import stratified_error
from grpo_core.statistics.quantiles import LEVEL


def paired_difference(
    before: Sequence[float], after: Sequence[float], within: Range = UNBOUNDED, *, level: float = LEVEL
) -> Estimate | None:
    """Return the mean of ``after - before`` over pairs, with Student's interval of the differences ``within``.

    Each pair is of one question, say, under both treatments; pairs are independent. What makes both values of a pair
    high or low together leaves the difference, so the interval is narrower than that of ``difference``. None without
    pairs. No interval from one pair, or where all differences are equal: they say nothing of how others would vary.

    Raises ValueError where a value has no partner.
    """
    return stratified_paired_difference({"pairs": before}, {"pairs": after}, within, level=level)


def stratified_paired_difference(
    before: Mapping[str, Sequence[float]],
    after: Mapping[str, Sequence[float]],
    within: Range = UNBOUNDED,
    *,
    level: float = LEVEL,
) -> Estimate | None:
    """Return the mean of ``after - before`` over strata (countries) of equal weight, whatever their numbers of pairs.

    Both have the same strata, and in each the values of the same pairs (tables) in the same order; pairs are
    independent. ``within`` has the least and the largest possible difference; the interval is cut there. It is
    Student's of the differences, with the stratified variance and degrees of freedom of ``stratified_mean``.

    Where nearly all pairs are ties and the others go one way, the differences are too skewed for Student: in
    simulated games with 5% of other pairs the interval covers 86% from 70 pairs, 92% from 210 and 94% from 700.

    None where a stratum is empty. No interval where a stratum has a single pair, or where in each stratum all
    differences are equal: they say nothing of how others would vary. For values that are 0 or 1 see
    ``stratified_paired_rate_difference``.

    Raises ValueError where a stratum or a value has no partner.
    """
    strata = paired_values(before, after)
    if not strata or not all(strata):
        return None
    differences = [[new - old for old, new in pairs] for pairs in strata]
    mean, n = fmean(map(fmean, differences)), sum(map(len, differences))
    if any(len(values) == 1 for values in differences):
        return Estimate(mean, None, None, n)
    squared, freedom = stratified_error(differences)
    if squared == 0:
        return Estimate(mean, None, None, n)
    return student_estimate(mean, squared, freedom, n, within, level)


def paired_values(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]]
) -> list[list[tuple[float, float]]]:
    """Return each stratum's pairs ``(before, after)``.

    Raises ValueError where a stratum or a value has no partner.
    """
    if before.keys() != after.keys():
        raise ValueError(f"these strata have values on one side only: {sorted(before.keys() ^ after.keys())}")
    return [list(zip(values, after[name], strict=True)) for name, values in before.items()]
