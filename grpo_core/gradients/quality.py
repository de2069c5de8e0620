"""Quality of an advantage method, measured on its policy gradients: bias, noise, direction, effective samples.

Each method gives a batch the gradient ``sum_i A_i s_i / n``, where the score ``s_i`` is the gradient of turn i's summed
log-probability. A *reference* (``reference_advantages``) has no bias and little noise. Both share the batch's noise, so
their mean difference estimates bias sharply. Squared norms of means are U-statistics (Hoeffding, Ann. Math. Stat. 19,
1948): only products of different batches, because the square of a batch's own noise has a positive mean.

Axes: M turns, K batches, D sketched and C drawn gradient dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from grpo_core.batching.microbatches import TrainingTurn, micro_batches
from grpo_core.forward.logprobs import token_logprobs
from grpo_core.types import FloatArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class TurnScores:
    """Scores of M turns, each reduced by the same projection and the same drawn parameters."""

    sketch: FloatArray  # (M, D) random projection; keeps inner products on average
    coordinates: FloatArray  # (M, C) components of randomly drawn parameters, for signs


@dataclass(frozen=True, slots=True)
class Interval:
    """A point estimate with its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class GradientQuality:
    """One advantage method's effect on the gradient; lengths are relative to the true gradient's."""

    bias: Interval  # length of the mean error
    slope: Interval  # the mean gradient's component along the true one; 1: neither shrunk nor enlarged
    cosine: Interval  # between the mean gradient and the true one
    noise: Interval  # variance of a batch's gradient (trace) over its squared component along the true one
    sign_agreement: Interval  # share of parameters, weighted by size, whose sign a batch gets right
    wrong_direction: Interval  # share of batches whose gradient points away from the true one
    effective_samples: Interval  # how many times as many samples the yardstick needs for the same noise
    drowned: float  # share of resamples in which noise left a measure without a value; intervals exclude them


def turn_scores(
    model: nn.Module,
    turns: Sequence[TrainingTurn],
    *,
    sketch_size: int = 2048,
    coordinates: int = 2048,
    seed: int = 0,
    advance: Callable[[int], None] | None = None,
) -> TurnScores:
    """Compute the gradient of every turn's log-probability, with one backward pass for each turn.

    Log-probabilities are summed over the turn's sampled tokens, because only then is the score's expectation 0 if the
    choices decide how many tokens follow. The sketch adds parameters with random signs (Charikar, Chen & Farach-Colton,
    ICALP 2002).

    Args:
        model: a causal LM whose parameters require gradients; it is not changed.
        turns: in the learner's form.
        sketch_size: D.
        coordinates: C, at most the number of parameters.
        seed: draws signs and coordinates.
        advance: called with the number of turns done.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    size = sum(parameter.numel() for parameter in parameters)
    generator = torch.Generator().manual_seed(seed)
    padded = -(-size // sketch_size) * sketch_size
    signs = torch.randint(0, 2, (padded,), generator=generator, dtype=torch.float32).mul_(2).sub_(1)
    drawn = torch.randperm(size, generator=generator)[:coordinates]
    sketch = np.empty((len(turns), sketch_size), np.float32)
    seen = np.empty((len(turns), len(drawn)), np.float32)
    flat = torch.zeros(padded)
    for index, turn in enumerate(turns):
        (micro,) = micro_batches([turn], np.ones(1, np.float32), np.ones(1), budget=1)
        chosen_N, _ = token_logprobs(model, micro)
        score = chosen_N.sum()
        gradients = torch.autograd.grad(score, parameters)
        torch.cat([gradient.reshape(-1) for gradient in gradients], out=flat[:size])
        sketch[index] = (flat * signs).view(-1, sketch_size).sum(0).numpy()
        seen[index] = flat[drawn].numpy()
        if advance is not None:
            advance(1)
    return TurnScores(sketch, seen)


def batch_gradients(scores: FloatArray, advantages: FloatArray, batches: Sequence[NDArray[np.int64]]) -> Floats:
    """Return (K, D), the mean of advantage times score over each batch's turns (indices)."""
    return np.stack(
        [advantages[turns].astype(np.float64) @ scores[turns].astype(np.float64) / len(turns) for turns in batches]
    )


def gradient_quality(
    sketch: Floats,
    reference: Floats,
    yardstick: Floats,
    coordinates: Floats,
    reference_coordinates: Floats,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> GradientQuality:
    """Measure one advantage method, with bootstrap percentile intervals over batches.

    Args:
        sketch: (K, D) gradients of K independent batches, K >= 4.
        reference: (K, D) of the same batches under ``reference_advantages``.
        yardstick: (K, D) of the same batches under the method whose noise is the unit of effective samples.
        coordinates: (K, C) of the method.
        reference_coordinates: (K, C) of the reference.
        resamples: of the bootstrap.
        seed: of the bootstrap.
    """
    count = len(sketch)
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=resamples)
    draws = np.concatenate([np.ones((1, count)), drawn])  # the batches themselves, then their resamples
    error = sketch - reference
    own, plain, true = sketch @ sketch.T, yardstick @ yardstick.T, reference @ reference.T
    length = _between(true, draws)
    length[~(length > 0)] = np.nan  # noise hides the reference in this draw
    along, plain_along = (_between(each @ reference.T, draws) for each in (sketch, yardstick))
    # Only the component along the true gradient counts: a larger step makes up for a shrunk gradient.
    noise = _ratio(_variance(own, draws) * length, along**2)
    plain_noise = _ratio(_variance(plain, draws) * length, plain_along**2)
    known = length / length  # 1, or NaN
    measures = (
        np.sqrt(np.maximum(_between(error @ error.T, draws), 0.0) / length),
        along / length,
        # Free of noise only on average, so that a draw may leave the range of a cosine.
        np.clip(_ratio(along, np.sqrt(np.maximum(_between(own, draws), 0.0) * length)), -1.0, 1.0),
        noise,
        known * (draws @ _sign_agreement(coordinates, reference_coordinates)) / count,
        known * (draws @ _points_away(sketch, reference)) / count,
        _ratio(plain_noise, noise),
    )
    bias, slope, cosine, noise_along, right, wrong, gain = (percentile_interval(each) for each in measures)
    drowned = float(np.isnan(np.stack(measures)[:, 1:]).any(axis=0).mean())
    return GradientQuality(bias, slope, cosine, noise_along, right, wrong, gain, drowned)


def percentile_interval(values: Floats) -> Interval:
    """Return the first value with percentiles 2.5 and 97.5 of the other finite ones."""
    resampled = values[1:][np.isfinite(values[1:])]
    low, high = np.percentile(resampled, [2.5, 97.5]) if len(resampled) else (np.nan, np.nan)
    return Interval(float(values[0]), float(low), float(high))


def _between(product: Floats, draws: Floats) -> Floats:
    """Return each draw's mean product of different batches, an unbiased squared length of the mean."""
    total = ((draws @ product) * draws).sum(1) - draws**2 @ np.diag(product)
    return _ratio(total, draws.sum(1) ** 2 - (draws**2).sum(1))


def _variance(product: Floats, draws: Floats) -> Floats:
    """Return each draw's trace of the covariance of a batch's gradient."""
    squares: Floats = draws @ np.diag(product) / draws.sum(1)
    return squares - _between(product, draws)


def _ratio(above: Floats, below: Floats) -> Floats:
    """Divide; NaN where the divisor is 0."""
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below != 0)


def _sign_agreement(coordinates: Floats, reference: Floats) -> Floats:
    """Compare each batch with the reference of the other batches; shape (K,)."""
    others = (reference.sum(0) - reference) / (len(reference) - 1)
    right = np.sign(coordinates) == np.sign(others)
    weights = np.abs(others)
    agreement: Floats = (right * weights).sum(1) / weights.sum(1)
    return agreement


def _points_away(sketch: Floats, reference: Floats) -> Floats:
    others = (reference.sum(0) - reference) / (len(reference) - 1)
    return np.asarray((sketch * others).sum(1) < 0, np.float64)
