"""Players that share games: values cluster by game, while strata (countries) weigh the same. Pure functions.

A mixed table seats several players in one game, and a player may have several seats. What its seats get depends on one
another: the centres of a table have a fixed sum, and only one power wins alone. Games are independent.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from grpo_core.statistics.estimate import UNBOUNDED, Estimate, Range, difference, student_estimate
from grpo_core.statistics.quantiles import LEVEL
from grpo_core.statistics.rates import rate_interval


class Seat(NamedTuple):
    """What a player got in one seat of one game."""

    game: Hashable
    stratum: str  # the country
    value: float


@dataclass(frozen=True, slots=True)
class _Fit:
    """Linearised means of one or two players over strata of equal weight."""

    means_P: NDArray[np.float64]  # of each player
    influence_GP: NDArray[np.float64]  # what each game's residuals add to each mean; squares sum to the variance
    shares_GP: NDArray[np.float64]  # each game's weight in each mean
    freedom: float  # of the mean, or of the difference of two

    @property
    def covariance(self) -> NDArray[np.float64]:
        return self.influence_GP.T @ self.influence_GP


def mixed_mean(
    seats: Sequence[Seat], strata: Sequence[str], within: Range = UNBOUNDED, *, level: float = LEVEL
) -> Estimate | None:
    """Return a player's mean over ``strata`` (countries) of equal weight, with an interval; values cluster by game.

    ``within`` has the least and the largest possible value; the interval is cut there.

    The mean is that of the strata's own means, a regression on strata. Its variance is the sum over games g of
    ``(sum_k e_gk / (K n_k sqrt(1 - h_gk)))^2``, with ``e_gk`` the sum of game g's residuals in stratum k, ``n_k`` the
    seats there and ``h_gk`` the game's share of them: CR2 of Bell and McCaffrey (Survey Methodology 28, 2002), in the
    general form of Pustejovsky and Tipton (Journal of Business and Economic Statistics 36, 2018). Degrees of freedom
    are Satterthwaite's, for independent seats of each stratum's own variance. With one seat a game this is
    ``stratified_mean``, with one stratum and equal variances ``clustered_mean``. Numbers of seats may differ.

    None where a stratum has no seat. No interval where one game has all seats of a stratum, nor where all values are
    the one end of a range without another end, such as counts that are all 0.

    Raises ValueError where a seat has another stratum.
    """
    fit = _fit([seats], strata)
    if fit is None:
        return None
    mean = float(fit.means_P[0])
    squared = float(fit.covariance[0, 0])
    is_end_of_counts = squared == 0 and mean in within and not math.isfinite(within[1] - within[0])
    if not math.isfinite(fit.freedom) or is_end_of_counts:
        return Estimate(mean, None, None, len(seats))
    return student_estimate(mean, squared, fit.freedom, len(seats), within, level)


def mixed_rate(seats: Sequence[Seat], strata: Sequence[str], *, level: float = LEVEL) -> Estimate | None:
    """Return a player's rate of ones among zeros and ones, with an interval inside [0, 1], as in ``mixed_mean``.

    This is the interval of ``rate_interval`` at the effective number of seats, ``p (1 - p)`` over the variance of
    ``mixed_mean``, with the t quantile of its degrees of freedom (see ``clustered_rate`` for the sources). It is at
    least ``1 / sum_g h_g^2``, with ``h_g`` the game's weight: its value where a game's seats are all equal. Where all
    values are equal, the correlation is unknown, and that least number is taken; for events that exclude one another in
    a game, such as solos, the interval of a player with several seats is then wider than it must be.
    """
    fit = _fit([seats], strata)
    return None if fit is None else _rate(fit, 0, len(seats), level)


def mixed_difference(
    before: Sequence[Seat],
    after: Sequence[Seat],
    strata: Sequence[str],
    within: Range = UNBOUNDED,
    *,
    level: float = LEVEL,
) -> Estimate | None:
    """Return the difference of two players' means, ``after - before``, where they share games, in part or always.

    Each player's mean is that of ``mixed_mean``; a game's residuals of both players are added before they are squared,
    so that what they share in a game counts as it should. ``within`` has the least and the largest possible difference.

    None where a stratum has no seat of a player. No interval where one game has all of a player's seats in a stratum,
    or where all residuals are 0. Raises ValueError where a seat has another stratum.
    """
    fit = _fit([before, after], strata)
    if fit is None:
        return None
    n = len(before) + len(after)
    mean = float(fit.means_P[1] - fit.means_P[0])
    squared = float(np.square(fit.influence_GP[:, 1] - fit.influence_GP[:, 0]).sum())
    if not math.isfinite(fit.freedom) or squared == 0:
        return Estimate(mean, None, None, n)
    return student_estimate(mean, squared, fit.freedom, n, within, level)


def mixed_rate_difference(
    before: Sequence[Seat], after: Sequence[Seat], strata: Sequence[str], *, level: float = LEVEL
) -> Estimate | None:
    """Return the difference of two players' rates, ``after - before``, inside [-1, 1], as in ``mixed_difference``.

    The interval joins those of ``mixed_rate`` by ``difference`` with the estimates' correlation over games, 0 where one
    has no variance (square-and-add with correlation: Newcombe, Statistics in Medicine 17, 1998, method 10). It exists
    also where events are rare, and then covers up to 98%.
    """
    fit = _fit([before, after], strata)
    if fit is None:
        return None
    (first, shared), (_, second) = fit.covariance.tolist()
    correlation = shared / math.sqrt(first * second) if first > 0 and second > 0 else 0.0
    rates = (_rate(fit, 0, len(before), level), _rate(fit, 1, len(after), level))
    return difference(*rates, correlation=max(-1.0, min(1.0, correlation)))


def _rate(fit: _Fit, player: int, n: int, level: float) -> Estimate:
    rate = min(1.0, max(0.0, float(fit.means_P[player])))
    if not math.isfinite(fit.freedom):
        return Estimate(rate, None, None, n)
    least = 1 / float(np.square(fit.shares_GP[:, player]).sum())
    squared = float(fit.covariance[player, player])
    effective = max(least, rate * (1 - rate) / squared) if squared > 0 else least
    return Estimate(rate, *rate_interval(rate, effective, level, fit.freedom), n)


def _fit(players: Sequence[Sequence[Seat]], strata: Sequence[str]) -> _Fit | None:
    """Fit each player's means; None where a stratum has no seat of a player.

    Cells (axis C) are the strata of each player in turn. ``freedom`` is infinite where a game has all seats of a cell.
    """
    columns = {name: column for column, name in enumerate(strata)}
    unknown = {seat.stratum for seats in players for seat in seats} - columns.keys()
    if unknown:
        raise ValueError(f"seats are in strata {sorted(unknown)}, which are not among {list(strata)}")
    if not all(players):
        return None
    rows = {game: row for row, game in enumerate(dict.fromkeys(seat.game for seats in players for seat in seats))}
    cells = len(players) * len(strata)
    game_N = np.array([rows[seat.game] for seats in players for seat in seats], dtype=np.intp)
    cell_N = np.array(
        [columns[seat.stratum] + player * len(strata) for player, seats in enumerate(players) for seat in seats],
        dtype=np.intp,
    )
    value_N = np.array([seat.value for seats in players for seat in seats], dtype=np.float64)
    seats_C = np.bincount(cell_N, minlength=cells)
    if not seats_C.all():
        return None
    mean_C = np.bincount(cell_N, value_N, cells) / seats_C
    residual_N = value_N - mean_C[cell_N]
    place_N, shape = game_N * cells + cell_N, (len(rows), cells)
    count_GC = np.bincount(place_N, minlength=shape[0] * cells).reshape(shape)
    residual_GC = np.bincount(place_N, residual_N, shape[0] * cells).reshape(shape)
    means_P = mean_C.reshape(len(players), -1).mean(1)
    shares_GP = (count_GC / seats_C).reshape(shape[0], len(players), -1).mean(2)
    if (count_GC == seats_C).any():
        return _Fit(means_P, np.zeros_like(shares_GP), shares_GP, math.inf)
    weight_GC = 1 / (len(strata) * seats_C * np.sqrt(1 - count_GC / seats_C))
    influence_GP = (weight_GC * residual_GC).reshape(shape[0], len(players), -1).sum(2)
    variance_C = np.bincount(cell_N, np.square(residual_N), cells) / (seats_C - 1)
    return _Fit(means_P, influence_GP, shares_GP, _freedom(weight_GC, count_GC, seats_C, variance_C))


def _freedom(
    weight_GC: NDArray[np.float64],
    count_GC: NDArray[np.intp],
    seats_C: NDArray[np.intp],
    variance_C: NDArray[np.float64],
) -> float:
    """Satterthwaite's degrees of freedom: the trace of a matrix over games, squared, over the sum of its squares.

    The matrix has the covariances of the games' influences if seats are independent: a diagonal minus a product.
    """
    if not variance_C.any():
        variance_C = np.ones_like(variance_C)
    variance_C = variance_C / variance_C.sum()  # the scale does not matter; tiny values must not underflow
    diagonal_G = (np.square(weight_GC) * count_GC) @ variance_C
    factor_GC = weight_GC * count_GC * np.sqrt(variance_C / seats_C)
    product_CC = factor_GC.T @ factor_GC
    trace = diagonal_G.sum() - np.trace(product_CC)
    squares = np.square(diagonal_G).sum() - 2 * (diagonal_G @ np.square(factor_GC)).sum() + np.square(product_CC).sum()
    return float(trace**2 / squares)
