"""Gradient quality against closed forms, on a bandit whose true gradient is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from grpo_core.advantages.grouping import Sample
from grpo_core.batching.microbatches import training_turns
from grpo_core.gradients.quality import batch_gradients, gradient_quality, turn_scores
from tests.unit.grpo_core.forward.test_logprobs import dense
from tests.unit.grpo_core.support.cases import ragged_episodes, tiny_model


def sample(role: str, episode: int, **facts: int) -> Sample:
    return Sample(role, episode, {"country": role, **facts})


def vectors(mean, deviation, batches=200, seed=0):
    return np.random.default_rng(seed).normal(size=(batches, len(mean))) * deviation + np.asarray(mean, float)


def quality(estimate, reference, plain_gradient=None):
    plain = estimate if plain_gradient is None else plain_gradient
    return gradient_quality(estimate, reference, plain, estimate, reference, resamples=200)


def test_an_estimate_with_the_references_mean_has_no_bias_and_its_own_noise():
    truth = np.ones(10)
    reference = vectors(truth, 0.1)
    noisy = reference + vectors(np.zeros(10), 2.0, seed=1)
    seen = quality(noisy, reference)
    assert seen.bias.low == 0  # its interval holds 0: no bias was found
    assert seen.slope.low < 1 < seen.slope.high
    assert seen.noise.value == pytest.approx(4.01, rel=0.15)  # 10 * (2.0 ** 2 + 0.1 ** 2) / |truth| ** 2
    assert seen.cosine.value == pytest.approx(1, abs=0.15)


def test_a_cosine_and_its_interval_stay_between_minus_one_and_one_in_noise():
    for seed in range(5):
        reference = vectors([0.3, 0.0], 1.0, batches=12, seed=seed)
        cosine = quality(reference + vectors([0.0, 0.0], 1.0, batches=12, seed=seed + 100), reference).cosine
        assert all(-1 <= end <= 1 for end in (cosine.value, cosine.low, cosine.high) if np.isfinite(end))


def test_a_known_bias_is_recovered_despite_shared_noise():
    truth = np.array([3.0, 4.0, 0.0])
    noise = vectors(np.zeros(3), 5.0)
    seen = quality(truth * 0.5 + [0, 0, 1.0] + noise, truth + noise)
    # The noise is the same on both sides, so the difference is exactly (-1.5, -2, 1).
    assert seen.bias.value == pytest.approx(np.sqrt(7.25) / np.sqrt(_between(truth + noise)), rel=1e-6)


def _between(rows):
    total = rows.sum(0) @ rows.sum(0) - (rows**2).sum()
    return total / (len(rows) * (len(rows) - 1))


def test_a_scaled_gradient_has_its_scale_as_slope_and_cosine_one():
    reference = vectors([1.0, -2.0], 0.2)
    seen = quality(0.75 * reference, reference)
    assert seen.slope.value == pytest.approx(0.75)
    assert seen.cosine.value == pytest.approx(1.0)
    assert seen.bias.value == pytest.approx(0.25)


def test_effective_samples_are_the_ratio_of_variances():
    truth = np.ones(20)
    low_noise, high_noise = vectors(truth, 1.0), vectors(truth, 3.0, seed=2)
    assert quality(low_noise, vectors(truth, 0.01), plain_gradient=high_noise).effective_samples.value == pytest.approx(
        9, rel=0.2
    )


def test_sign_agreement_and_wrong_direction_count_reversed_batches():
    reference = vectors([1.0, 1.0], 0.01)
    estimate = reference * np.where(np.arange(200) < 50, -1.0, 1.0)[:, None]
    seen = quality(estimate, reference)
    assert seen.sign_agreement.value == pytest.approx(0.75)
    assert seen.wrong_direction.value == pytest.approx(0.25)
    assert seen.wrong_direction.low < 0.25 < seen.wrong_direction.high


def test_signs_and_directions_are_compared_with_the_reference_of_the_other_batches():
    # The fourth batch outweighs the rest: its own reference would agree with it, that of the others does not.
    coordinates = np.array([[1.0], [1.0], [1.0], [-10.0]])
    sketch = np.hstack([coordinates, np.full((4, 1), 5.0)])  # a second direction, so that there is a mean gradient
    along_first = sketch * [1.0, 0.0]
    seen = gradient_quality(along_first, sketch, sketch, coordinates, coordinates, resamples=20)
    assert seen.sign_agreement.value == 0
    assert seen.wrong_direction.value == 1
    opposite = gradient_quality(-along_first, sketch, sketch, -coordinates, coordinates, resamples=20)
    assert opposite.sign_agreement.value == 1
    assert opposite.wrong_direction.value == 0


def test_a_method_without_gradient_has_no_direction_and_no_noise():
    reference = vectors([1.0, 1.0], 0.1)
    seen = quality(0 * reference, reference, plain_gradient=reference)
    assert (seen.bias.value, seen.slope.value) == pytest.approx((1, 0))
    assert np.isnan([seen.cosine.value, seen.noise.value, seen.effective_samples.value]).all()
    assert seen.drowned == 1


def test_resamples_without_signal_are_counted():
    clear = vectors([5.0, 5.0], 0.5, batches=12)
    assert quality(clear, clear).drowned == 0
    faint = vectors([0.3, 0.3], 1.0, batches=12, seed=3)
    seen = gradient_quality(clear, faint, clear, clear, faint, resamples=400, seed=1)
    generator, without = np.random.default_rng(1), 0
    for _ in range(400):
        times = generator.multinomial(12, np.full(12, 1 / 12))
        pairs = [times[a] * times[b] * (faint[a] @ faint[b]) for a in range(12) for b in range(12) if a != b]
        without += sum(pairs) <= 0
    assert 0 < without < 400
    assert seen.drowned == without / 400


def test_sketched_scores_keep_inner_products():
    model, episodes = tiny_model(), ragged_episodes(3)
    turns = training_turns(episodes, 0)[:3]
    size = sum(parameter.numel() for parameter in model.parameters())
    scores = turn_scores(model, turns, sketch_size=4096, coordinates=size, seed=1)
    for parameter in model.parameters():
        parameter.grad = None
    assert scores.coordinates.shape == (3, size)  # every parameter, in some order
    whole, sketched = scores.coordinates @ scores.coordinates.T, scores.sketch @ scores.sketch.T
    # A sketch of D dimensions errs by |a| |b| / sqrt(D): 4 such deviations.
    norms = np.sqrt(np.diag(whole))
    assert (np.abs(sketched - whole) <= 4 * np.outer(norms, norms) / np.sqrt(4096)).all()


def test_a_score_is_the_gradient_of_the_summed_logprobs():
    model = tiny_model().double()
    turn = training_turns(ragged_episodes(1), 0)[0]
    scores = turn_scores(model, [turn], sketch_size=64, coordinates=2000, seed=3)
    again = turn_scores(model, [turn], sketch_size=64, coordinates=2000, seed=3)
    np.testing.assert_array_equal(scores.sketch, again.sketch)
    assert np.abs(scores.coordinates).max() > 0
    assert all(parameter.grad is None for parameter in model.parameters())
    chosen, _ = dense(model, ragged_episodes(1)[0].turns[turn.turn])
    gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(chosen.sum(), list(model.parameters()))])
    order = torch.Generator().manual_seed(3)
    padded = -(-gradient.numel() // 64) * 64
    torch.randint(0, 2, (padded,), generator=order, dtype=torch.float32)
    drawn = torch.randperm(gradient.numel(), generator=order)[:2000]
    np.testing.assert_allclose(scores.coordinates[0], gradient[drawn].numpy(), rtol=1e-4, atol=1e-6)


def test_batch_gradients_are_means_of_advantage_times_score():
    scores = np.arange(12, dtype=np.float32).reshape(4, 3)
    advantages = np.array([1, -1, 2, 0], np.float32)
    batches = [np.array([0, 1]), np.array([2, 3])]
    expected = [(scores[0] - scores[1]) / 2, 2 * scores[2] / 2]
    np.testing.assert_allclose(batch_gradients(scores, advantages, batches), expected)
