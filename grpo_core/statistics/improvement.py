"""How probable it is that one player does better than another in a game of each. Pure functions."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from statistics import fmean

from grpo_core.statistics.estimate import Estimate
from grpo_core.statistics.means import sample_variance, summed_error
from grpo_core.statistics.paired import paired_values
from grpo_core.statistics.paired_rates import gains_and_losses, stratified_net_rate
from grpo_core.statistics.quantiles import LEVEL, two_sided_quantile
from grpo_core.statistics.rates import wilson_score


def probability_of_improvement(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]], *, level: float = LEVEL
) -> Estimate | None:
    """Return the probability that a game of ``after`` is better than one of ``before``, ties half, inside [0, 1].

    It is the share over all pairs of games of a stratum (country), averaged over strata of equal weight: the
    probability of improvement of Agarwal et al. (NeurIPS 2021), Mann and Whitney's statistic over its maximum
    (Annals of Mathematical Statistics 18, 1947). Games are independent, and both have the same strata, of any sizes.

    The variance in a stratum is that of placements (DeLong, DeLong and Clarke-Pearson, Biometrics 44, 1988): of each
    game's share of games of the other player that it beats. Degrees of freedom are Satterthwaite's over all strata, as
    Brunner and Munzel have them for one (Biometrical Journal 42, 2000). The interval is Wilson's with their t quantile,
    at the effective number of games ``p (1 - p) / V``. Where V is zero or unknown (one game in a stratum), that is the
    smaller of the two numbers of games, and the quantile the normal one. Above 0.98 (below 0.02) it covers about
    90% where the numbers of games in the strata differ tenfold.

    None where a stratum is empty. Raises ValueError where a stratum has values on one side only.
    """
    if before.keys() != after.keys():
        raise ValueError(f"these strata have values on one side only: {sorted(before.keys() ^ after.keys())}")
    if not before or not all(before.values()) or not all(after.values()):
        return None
    parts: list[tuple[float, float]] = []
    shares = []
    for name, old in before.items():
        better_A, better_B = _placements(old, after[name])
        shares.append(fmean(better_A))
        for placements in (better_A, better_B):
            n = len(placements)
            parts.append((sample_variance(placements) / n, n - 1) if n > 1 else (math.nan, 0))
    mean = fmean(shares)
    games = sum(map(len, before.values())), sum(map(len, after.values()))
    effective, quantile = float(min(games)), two_sided_quantile(level)
    if all(freedom for _, freedom in parts):
        squared, freedom = summed_error(parts, len(shares))
        if squared > 0:
            effective, quantile = mean * (1 - mean) / squared, two_sided_quantile(level, freedom)
    return Estimate(mean, *wilson_score(mean, effective, quantile), sum(games))


def paired_probability_of_improvement(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]], *, level: float = LEVEL
) -> Estimate | None:
    """Return the probability that ``after`` is better than ``before`` at the same table, ties half, inside [0, 1].

    Both have the same strata, and in each the values of the same pairs (tables) in the same order; pairs are
    independent, and strata weigh the same. It is 1/2 more than half the rate of better tables minus that of worse ones,
    whose interval is that of ``stratified_net_rate``.

    None where a stratum is empty. Raises ValueError where a stratum or a value has no partner.
    """
    net = stratified_net_rate([gains_and_losses(pairs) for pairs in paired_values(before, after)], level=level)
    if net is None or net.low is None or net.high is None:
        return None
    return Estimate((1 + net.mean) / 2, (1 + net.low) / 2, (1 + net.high) / 2, net.n)


def _placements(before_B: Sequence[float], after_A: Sequence[float]) -> tuple[list[float], list[float]]:
    """For each new game the share of old ones below it (A,), for each old game that of new ones above it (B,)."""
    sorted_B, sorted_A = sorted(before_B), sorted(after_A)
    below_A = [(bisect_left(sorted_B, new) + bisect_right(sorted_B, new)) / (2 * len(sorted_B)) for new in after_A]
    below_B = [(bisect_left(sorted_A, old) + bisect_right(sorted_A, old)) / (2 * len(sorted_A)) for old in before_B]
    return below_A, [1 - share for share in below_B]
