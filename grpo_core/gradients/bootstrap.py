"""Bias and noise of one batch's gradient under each way of judging it, by resampling its line-up blocks.

Where ``gradient_quality`` has many independent batches, a run that is being looked at has one. Its blocks were played
independently of one another, so how its gradient differs from block to block shows how it would have varied: by a
bootstrap over blocks for bias (Davison and Hinkley, "Bootstrap Methods and their Application", 1997), by a jackknife
over them for variances (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993). Baselines are those of the
whole batch and are held. Which countries a resample holds is left to chance, so what sets their gradients apart counts
as noise, although the rotation of countries would keep some of it out. Axes: M turns, B blocks, D sketched gradient
dimensions, R resamples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_core.gradients.quality import Interval, percentile_interval
from grpo_core.types import FloatArray

Floats = NDArray[np.float64]

MIN_BLOCKS = 4  # fewer say nothing of their own spread


@dataclass(frozen=True, slots=True)
class WayQuality:
    """One way of judging; lengths are shares of the reference gradient's length as this batch estimates it.

    That one is too long by the reference's noise: over ``sqrt(1 - reference_noise)`` they are shares of the true one's.
    """

    bias: Interval  # length of the mean difference to the reference, its noise taken out
    deviation: Interval  # standard deviation of the batch's gradient, over all its directions
    effective_samples: Interval | None  # how many times the samples the yardstick would need for the same noise


@dataclass(frozen=True, slots=True)
class GradientBootstrap:
    """One batch under all ways of judging."""

    blocks: int
    turns: int
    reference_noise: float  # share of the reference's squared length that is noise, at most 1; near 1: no direction
    ways: Mapping[str, WayQuality]


def block_gradients(scores: FloatArray, advantages: FloatArray, block_M: NDArray[np.int64]) -> Floats:
    """(B, D): the sum of advantage times score over each block's turns.

    Args:
        scores: (M, D).
        advantages: (M,).
        block_M: which of the B blocks a turn belongs to, 0 to B - 1, each with a turn.
    """
    members = [np.flatnonzero(block_M == block) for block in range(int(block_M.max()) + 1)]
    return np.stack([advantages[turns].astype(np.float64) @ scores[turns].astype(np.float64) for turns in members])


def bootstrap_gradients(
    ways: Mapping[str, Floats],
    left_out: Mapping[str, Floats],
    reference: Floats,
    turns_B: NDArray[np.int64],
    *,
    yardstick: str,
    resamples: int = 1000,
    seed: int = 0,
) -> GradientBootstrap:
    """Compare ways of judging one batch; its gradient is the mean over turns, ``sum_b G_b / sum_b n_b``.

    Bias: with ``E_b`` a block's difference to the reference, products ``E_a . E_b`` of different blocks only estimate
    the squared length of the mean difference without its noise (a U-statistic). Deviation: from the linearised
    variance of that ratio. Effective samples: the yardstick's variance over the way's, both with the judged episode
    left out, so that a mean that shrinks the gradient by the judged one's own share gains nothing.

    Bias has the percentiles 2.5 and 97.5 over resamples. They would be too narrow for a variance of few blocks, so
    deviation and effective samples have their logarithm's jackknife deviation over blocks times Student's quantile of
    B - 1 degrees. On made-up blocks of one size these intervals of 95% held the true deviation in 0.95 to 0.97 of
    batches of 4 to 28 blocks, in 0.87 to 0.90 where the blocks' own deviations vary (log-normal, 0.6), and the true
    effective samples then in 0.90 to 0.93.

    Args:
        ways: by name, (B, D) gradients of the blocks (``block_gradients``).
        left_out: the same ways, each with baselines without the judged episode; of what is not in it nothing is said
            of effective samples.
        reference: (B, D), of advantages without bias (``reference_advantages``).
        turns_B: turns of each block.
        yardstick: the name in ``left_out`` that effective samples are counted in.
        resamples: R, for bias.
        seed: of the draws; all ways see the same ones.

    Raises:
        ValueError: fewer than 4 blocks, or the reference is 0.
    """
    blocks = len(turns_B)
    if blocks < MIN_BLOCKS:
        raise ValueError(f"{blocks} blocks say nothing of their spread; it takes {MIN_BLOCKS}")
    length = float(np.linalg.norm(reference.sum(0))) / float(turns_B.sum())
    if length == 0:
        raise ValueError("the reference gradient is 0: nothing in the batch has signal")
    generator = np.random.default_rng(seed)
    drawn = generator.multinomial(blocks, np.full(blocks, 1 / blocks), size=resamples).astype(np.float64)
    draws = np.concatenate([np.ones((1, blocks)), drawn])  # the batch itself, then its resamples
    without = np.concatenate([np.ones((1, blocks)), 1 - np.eye(blocks)])  # the batch itself, then less one block each
    plain = _variance(left_out[yardstick], turns_B, without)
    out = {}
    for name, way in ways.items():
        bias = np.sqrt(np.maximum(_squared_mean(way - reference, turns_B, draws), 0.0)) / length
        deviation = np.sqrt(_variance(way, turns_B, without)) / length
        gain = _ratio(plain, _variance(left_out[name], turns_B, without)) if name in left_out else None
        out[name] = WayQuality(
            percentile_interval(bias), _jackknife(deviation), None if gain is None else _jackknife(gain)
        )
    noise = float(_variance(reference, turns_B, without[:1])[0])
    return GradientBootstrap(blocks, int(turns_B.sum()), min(1.0, noise / length**2), out)


def _variance(way: Floats, turns_B: NDArray[np.int64], draws: Floats) -> Floats:
    """Of a batch's gradient (trace), for every draw: ``sum_b |G_b - g n_b|^2 / (sum_b n_b)^2 B / (B - 1)``."""
    blocks, size = len(turns_B), turns_B.astype(np.float64)
    products = way @ way.T
    share = draws / (draws @ size)[:, None]
    along = share @ products  # (draws, B): g . G_b
    distance = np.diag(products) - 2 * size * along + size**2 * (along * share).sum(1)[:, None]
    out: Floats = np.maximum((draws * distance).sum(1), 0.0) / (draws @ size) ** 2 * blocks / (blocks - 1)
    return out


def _squared_mean(error: Floats, turns_B: NDArray[np.int64], draws: Floats) -> Floats:
    """Squared length of the mean error for every draw, from products of different blocks; may be below 0."""
    products = error @ error.T
    total = ((draws @ products) * draws).sum(1) - draws**2 @ np.diag(products)
    count = draws.sum(1)
    pairs = count**2 - (draws**2).sum(1)
    out: Floats = total / np.maximum(pairs, 1) * (count / (draws @ turns_B)) ** 2
    return out


def _ratio(above: Floats, below: Floats) -> Floats:
    """NaN where there is nothing to divide by."""
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


def _jackknife(values: Floats) -> Interval:
    """The batch's own value, and its interval from those less one block each, by the deviation of their logarithms.

    (0, 0) where all are 0; (0, inf) where one block decides whether there is anything, so that nothing can be said.
    """
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    value, less_one = float(values[0]), values[1:]
    if not values.any():
        return Interval(0.0, 0.0, 0.0)
    if not ((values > 0) & np.isfinite(values)).all():
        return Interval(value, 0.0, np.inf) if np.isfinite(value) else Interval(np.nan, np.nan, np.nan)
    blocks = len(less_one)
    logs = np.log(less_one)
    spread = float(np.sqrt((blocks - 1) / blocks * ((logs - logs.mean()) ** 2).sum()))
    factor = np.exp(min(float(stdtrit(blocks - 1, 0.975)) * spread, 600.0))  # what a float can hold
    return Interval(value, float(value / factor), float(value * factor))
