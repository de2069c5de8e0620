"""Bias and noise of one batch's gradient under each advantage method, by resampling its line-up blocks.

Bias comes from a bootstrap over the blocks, which were played independently (Davison and Hinkley, "Bootstrap Methods
and their Application", 1997), variances from a jackknife (Efron and Tibshirani, "An Introduction to the Bootstrap",
1993). Baselines are those of the whole batch. Differences between countries' gradients count as noise, although the
rotation of countries would remove some. Axes: M turns, B blocks, D sketched gradient dimensions, R resamples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_core.gradients.quality import Interval, percentile_interval
from grpo_core.types import FloatArray

Floats = NDArray[np.float64]

MIN_BLOCKS = 4  # with fewer their spread cannot be estimated


@dataclass(frozen=True, slots=True)
class WayQuality:
    """One method's gradient; lengths are relative to the reference gradient's length as this batch estimates it.

    Noise makes that length too large; divide by ``sqrt(1 - reference_noise)`` for shares of the true length.
    """

    bias: Interval  # length of the mean difference to the reference, without its noise
    deviation: Interval  # standard deviation of the batch's gradient, over all directions
    effective_samples: Interval | None  # how many times as many samples the yardstick needs for the same noise


@dataclass(frozen=True, slots=True)
class GradientBootstrap:
    """One batch under all methods."""

    blocks: int
    turns: int
    reference_noise: float  # noise's share of the reference's squared length, at most 1; near 1: direction unknown
    ways: Mapping[str, WayQuality]


def block_gradients(scores: FloatArray, advantages: FloatArray, block_M: NDArray[np.int64]) -> Floats:
    """Return (B, D), the sum of advantage (M,) times score (M, D) over each block's turns.

    ``block_M`` is each turn's block, 0 to B - 1; each block has a turn.
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
    """Compare advantage methods on one batch, whose gradient is the mean over turns, ``sum_b G_b / sum_b n_b``.

    Bias: with ``E_b`` a block's difference to the reference, products ``E_a . E_b`` of different blocks estimate the
    squared length of the mean difference without its noise (a U-statistic). Deviation: from the linearised variance
    of that ratio. Effective samples: the yardstick's variance over the method's, both with baselines that leave the
    sample's own episode out, so that a mean that only shrinks the gradient gains nothing.

    Bias has percentiles 2.5 and 97.5 over resamples. For variances of few blocks these would be too narrow, so the
    other intervals use the logarithm's jackknife deviation times Student's quantile of B - 1 degrees. On simulated
    batches of 4 to 28 blocks these 95% intervals had a coverage of 0.95 to 0.97, or 0.87 to 0.93 with uneven blocks.

    Args:
        ways: (B, D) gradients of the blocks (``block_gradients``) by the method's name.
        left_out: the same with baselines that leave the sample's own episode out; a method that is not in it gets no
            effective samples.
        reference: (B, D), of advantages without bias (``reference_advantages``).
        turns_B: turns of each block.
        yardstick: the method in ``left_out`` whose variance is the unit of effective samples.
        resamples: R, for bias.
        seed: of the draws, which all methods share.

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
    without = np.concatenate([np.ones((1, blocks)), 1 - np.eye(blocks)])  # the batch itself, then without each block
    plain = _variance(left_out[yardstick], turns_B, without)
    out = {}
    for name, way in ways.items():
        bias = np.sqrt(np.maximum(_squared_mean(way - reference, turns_B, draws), 0.0)) / length
        deviation = np.sqrt(_variance(way, turns_B, without)) / length
        gain = _ratio(plain, _variance(left_out[name], turns_B, without)) if name in left_out else None
        samples = None if gain is None else _jackknife(gain)
        out[name] = WayQuality(percentile_interval(bias), _jackknife(deviation), samples)
    noise = float(_variance(reference, turns_B, without[:1])[0])
    return GradientBootstrap(blocks, int(turns_B.sum()), min(1.0, noise / length**2), out)


def _variance(way: Floats, turns_B: NDArray[np.int64], draws: Floats) -> Floats:
    """Return the gradient's variance (trace) for every draw: ``sum_b |G_b - g n_b|^2 / (sum_b n_b)^2 B / (B - 1)``."""
    blocks, size = len(turns_B), turns_B.astype(np.float64)
    products = way @ way.T
    share = draws / (draws @ size)[:, None]
    along = share @ products  # (draws, B): g . G_b
    distance = np.diag(products) - 2 * size * along + size**2 * (along * share).sum(1)[:, None]
    out: Floats = np.maximum((draws * distance).sum(1), 0.0) / (draws @ size) ** 2 * blocks / (blocks - 1)
    return out


def _squared_mean(error: Floats, turns_B: NDArray[np.int64], draws: Floats) -> Floats:
    """Estimate the squared length of the mean error for every draw from products of different blocks; may be < 0."""
    products = error @ error.T
    total = ((draws @ products) * draws).sum(1) - draws**2 @ np.diag(products)
    count = draws.sum(1)
    pairs = count**2 - (draws**2).sum(1)
    out: Floats = total / np.maximum(pairs, 1) * (count / (draws @ turns_B)) ** 2
    return out


def _ratio(above: Floats, below: Floats) -> Floats:
    """Divide; NaN where the divisor is not positive."""
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


def _jackknife(values: Floats) -> Interval:
    """Return the batch's value with an interval from the deviation of the logarithms of those without each block.

    The interval is (0, 0) if all are 0, and (0, inf) if some are 0 or not finite.
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
    factor = np.exp(min(float(stdtrit(blocks - 1, 0.975)) * spread, 600.0))  # avoids overflow
    return Interval(value, float(value / factor), float(value * factor))
