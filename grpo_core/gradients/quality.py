"""How good an advantage method is, measured on its policy gradients: bias, noise, direction, effective samples.

Different methods compute advantages of the same batches; each gives every batch a gradient ``sum_i A_i s_i / n``,
where ``s_i`` is the score of turn i (the gradient of its tokens' summed log-probability). A *reference*
(``reference_advantages``) has no bias and little noise. Both share their noise, so their mean difference over batches
is a sharp estimate of bias. Squared norms of means are U-statistics (Hoeffding, Ann. Math. Stat. 19, 1948): products
of different batches only, as the square of a batch's own noise has a positive mean.

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
    """Scores of M turns, small enough to keep: every one seen through the same two windows."""

    sketch: FloatArray  # (M, D) random projection; keeps inner products on average
    coordinates: FloatArray  # (M, C) of parameters drawn at random, for signs


@dataclass(frozen=True, slots=True)
class Interval:
    """A point estimate with its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class GradientQuality:
    """What one advantage method does to the gradient; lengths are relative to the true gradient's."""

    bias: Interval  # length of the mean error
    slope: Interval  # the mean gradient's component along the true one; 1: neither shrunk nor blown up
    cosine: Interval  # between the mean gradient and the true one
    noise: Interval  # variance of a batch's gradient (trace) over its squared component along the true one
    sign_agreement: Interval  # share of parameters, weighted by size, whose sign a batch gets right
    wrong_direction: Interval  # share of batches whose gradient points away from the true one
    effective_samples: Interval  # how many times the samples the yardstick would need for the same noise
    drowned: float  # share of resamples whose noise left a measure without a value; intervals are without them


def turn_scores(
    model: nn.Module,
    turns: Sequence[TrainingTurn],
    *,
    sketch_size: int = 2048,
    coordinates: int = 2048,
    seed: int = 0,
    advance: Callable[[int], None] | None = None,
) -> TurnScores:
    """Gradients of every turn's log-probability (summed over its sampled tokens), one backward pass a turn.

    Of sums, because only their expectation under the policy is 0: that of a mean over a turn's tokens is not where
    the choices decide how many tokens follow, and then a constant added to all returns changes the gradient.

    The sketch adds up parameters with random signs (Charikar, Chen & Farach-Colton, ICALP 2002).

    Args:
        model: a causal LM whose parameters require gradients; nothing is changed.
        turns: all in the learner's form.
        sketch_size: D.
        coordinates: C, at most the number of parameters.
        seed: of signs and drawn coordinates.
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
        score = token_logprobs(model, micro).chosen_N.sum()
        gradients = torch.autograd.grad(score, parameters)
        torch.cat([gradient.reshape(-1) for gradient in gradients], out=flat[:size])
        sketch[index] = (flat * signs).view(-1, sketch_size).sum(0).numpy()
        seen[index] = flat[drawn].numpy()
        if advance is not None:
            advance(1)
    return TurnScores(sketch, seen)


def batch_gradients(scores: FloatArray, advantages: FloatArray, batches: Sequence[NDArray[np.int64]]) -> Floats:
    """(K, D): the mean of advantage times score over each batch's turns (indices)."""
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
    """Quality of one advantage method, with bootstrap intervals over batches (percentiles).

    Args:
        sketch: (K, D) gradients of K independent batches, K >= 4.
        reference: (K, D) of the same batches under ``reference_advantages``.
        yardstick: (K, D) of the same batches under the method that effective samples are counted in.
        coordinates: (K, C) of the method; ``reference_coordinates`` (K, C) of the reference.
        reference_coordinates: see above.
        resamples: of the bootstrap.
        seed: of the bootstrap.
    """
    count = len(sketch)
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=resamples)
    draws = np.concatenate([np.ones((1, count)), drawn])  # the batches themselves, then their resamples
    error = sketch - reference
    own, plain, true = sketch @ sketch.T, yardstick @ yardstick.T, reference @ reference.T
    length = _between(true, draws)
    length[~(length > 0)] = np.nan  # drowned in noise: nothing can be said of this draw
    along, plain_along = (_between(each @ reference.T, draws) for each in (sketch, yardstick))
    # What counts is the component along the true gradient: a shrunk one is as good after a larger step.
    noise = _ratio(_variance(own, draws) * length, along**2)
    plain_noise = _ratio(_variance(plain, draws) * length, plain_along**2)
    known = length / length  # 1, or NaN
    measures = (
        np.sqrt(np.maximum(_between(error @ error.T, draws), 0.0) / length),
        along / length,
        _ratio(along, np.sqrt(np.maximum(_between(own, draws), 0.0) * length)),
        noise,
        known * (draws @ _sign_agreement(coordinates, reference_coordinates)) / count,
        known * (draws @ _points_away(sketch, reference)) / count,
        _ratio(plain_noise, noise),
    )
    bias, slope, cosine, noise_along, right, wrong, gain = (percentile_interval(each) for each in measures)
    drowned = float(np.isnan(np.stack(measures)[:, 1:]).any(axis=0).mean())
    return GradientQuality(bias, slope, cosine, noise_along, right, wrong, gain, drowned)


def percentile_interval(values: Floats) -> Interval:
    """The first value, and the percentiles 2.5 and 97.5 of those of the others that are finite."""
    resampled = values[1:][np.isfinite(values[1:])]
    low, high = np.percentile(resampled, [2.5, 97.5]) if len(resampled) else (np.nan, np.nan)
    return Interval(float(values[0]), float(low), float(high))


def _between(product: Floats, draws: Floats) -> Floats:
    """For every draw the mean product of different batches: an unbiased squared length of the mean."""
    total = ((draws @ product) * draws).sum(1) - draws**2 @ np.diag(product)
    return _ratio(total, draws.sum(1) ** 2 - (draws**2).sum(1))


def _variance(product: Floats, draws: Floats) -> Floats:
    """For every draw the trace of the covariance of a batch's gradient."""
    squares: Floats = draws @ np.diag(product) / draws.sum(1)
    return squares - _between(product, draws)


def _ratio(above: Floats, below: Floats) -> Floats:
    """NaN where there is nothing to divide by."""
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below != 0)


def _sign_agreement(coordinates: Floats, reference: Floats) -> Floats:
    """(K,): each batch against the reference of the other batches."""
    others = (reference.sum(0) - reference) / (len(reference) - 1)
    right = np.sign(coordinates) == np.sign(others)
    weights = np.abs(others)
    agreement: Floats = (right * weights).sum(1) / weights.sum(1)
    return agreement


def _points_away(sketch: Floats, reference: Floats) -> Floats:
    others = (reference.sum(0) - reference) / (len(reference) - 1)
    away: Floats = ((sketch * others).sum(1) < 0).astype(float)
    return away
