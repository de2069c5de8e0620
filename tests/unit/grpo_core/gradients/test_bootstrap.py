"""Bias and noise of a batch's gradient, against closed forms and a plain bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from grpo_core.advantages.grouping import Sample
from grpo_core.advantages.method import BATCH_MEAN, NO_BASELINE, AdvantageMethod, reference_advantages
from grpo_core.gradients.bootstrap import block_gradients, bootstrap_gradients
from grpo_core.gradients.quality import Interval

EVEN = np.full(40, 5)


def noise(blocks=40, size=6, seed=0, scale=1.0):
    return np.random.default_rng(seed).normal(size=(blocks, size)) * scale


def one(way, reference=None, turns=EVEN, **options):
    """A single method, compared with itself."""
    return bootstrap_gradients(
        {"way": way}, {"way": way}, way if reference is None else reference, turns, yardstick="way", **options
    )


def test_block_gradients_are_sums_over_their_turns():
    scores = np.arange(12, dtype=np.float32).reshape(4, 3)
    advantages = np.array([1, -1, 2, 3], np.float32)
    expected = [scores[0] + 3 * scores[3], -scores[1] + 2 * scores[2]]
    np.testing.assert_allclose(block_gradients(scores, advantages, np.array([0, 1, 1, 0])), expected)


def test_the_deviation_is_the_standard_error_of_a_mean_of_blocks():
    scales = np.array([3.0, 1, 1, 1, 2, 0])
    way = np.array([4.0, 0, 0, 0, 0, 2]) + noise() * scales
    found = one(way, resamples=4000)
    variance = way.var(0, ddof=1).sum() / 40
    seen = found.ways["way"].deviation
    assert seen.value == pytest.approx(np.sqrt(variance) / np.linalg.norm(way.mean(0)), rel=0.03)
    assert seen.low < seen.value < seen.high
    assert found.reference_noise == pytest.approx(variance / (way.mean(0) ** 2).sum(), rel=1e-9)


def test_a_known_covariance_is_recovered():
    covariance = np.diag([9.0, 1, 1, 4, 0.25, 0.25])
    truth, found = np.full(6, 10.0), []
    for seed in range(60):
        way = np.random.default_rng(seed).multivariate_normal(truth, covariance, size=40)
        seen = one(way, resamples=200, seed=seed)
        found.append((seen.ways["way"].deviation.value * np.linalg.norm(way.mean(0))) ** 2)
    assert np.mean(found) == pytest.approx(np.trace(covariance) / 40, rel=0.05)


@pytest.mark.parametrize(
    ("blocks", "uneven", "least"), [(4, 0.0, 0.92), (4, 0.6, 0.8), (14, 0.0, 0.92), (14, 0.6, 0.8)]
)
def test_deviation_intervals_hold_the_true_value_even_with_few_blocks(blocks, uneven, least):
    rng = np.random.default_rng(blocks)
    truth, held = 2 * np.exp(uneven**2 / 2) / np.sqrt(blocks), 0
    for _ in range(300):
        sizes = rng.lognormal(-(uneven**2) / 2, uneven, (blocks, 1))
        way = np.eye(1, 40) + 2 * rng.normal(size=(blocks, 40)) / np.sqrt(40) * sizes
        seen = one(way, turns=np.ones(blocks, np.int64), resamples=10).ways["way"].deviation
        assert seen.low < seen.value < seen.high
        held += seen.low <= truth / np.linalg.norm(way.mean(0)) <= seen.high
    assert least * 300 <= held < 300


def test_effective_sample_intervals_hold_the_true_value():
    rng, held = np.random.default_rng(0), 0
    for _ in range(300):
        common, own = rng.normal(size=(2, 7, 40)) * rng.lognormal(-0.18, 0.6, (2, 7, 1))
        ways = {"plain": 10 + 20 * common + 30 * own, "way": 10 + 20 * common}
        found = bootstrap_gradients(ways, ways, ways["way"], np.ones(7, np.int64), yardstick="plain", resamples=10)
        gain = found.ways["way"].effective_samples
        assert gain is not None
        held += gain.low <= (20**2 + 30**2) / 20**2 <= gain.high
    assert 0.8 * 300 <= held < 300


def test_a_method_with_one_nonzero_block_has_a_deviation_without_an_upper_bound():
    way = np.zeros((5, 6))
    way[2, 0] = 3.0
    ways = {"one": way, "nothing": np.zeros((5, 6))}
    found = bootstrap_gradients(ways, {"one": way}, way, np.full(5, 5), yardstick="one", resamples=10).ways
    alone = found["one"].deviation
    assert alone.low == 0 < alone.value < alone.high == np.inf
    assert found["nothing"].deviation == Interval(0.0, 0.0, 0.0)


def test_blocks_are_weighted_by_their_number_of_turns():
    turns = np.random.default_rng(5).integers(1, 20, 40)
    way = turns[:, None] * (np.ones(6) + noise(scale=0.5)) + noise(seed=1)
    found = one(way, turns=turns, resamples=3000).ways["way"].deviation
    rng, drawn = np.random.default_rng(9), []
    for _ in range(3000):
        picked = rng.integers(0, 40, 40)
        drawn.append(way[picked].sum(0) / turns[picked].sum())
    expected = np.sqrt(np.var(drawn, axis=0).sum() * 40 / 39) / np.linalg.norm(way.sum(0) / turns.sum())
    assert found.value == pytest.approx(expected, rel=0.05)
    assert found.low < expected < found.high


def test_noise_shared_with_the_reference_is_not_taken_for_bias():
    reference = np.array([8.0, 0, 0, 0, 0, 0]) + noise(scale=6.0, seed=1)
    length = np.linalg.norm(reference.mean(0))
    squares, covered = [], 0
    for seed in range(200):
        error = np.array([0, 0.6, 0, 0, 0, 0]) * 5 + noise(seed=seed + 10, scale=2.0)
        seen = one(reference + error, reference, resamples=200, seed=seed)
        bias = seen.ways["way"].bias
        squares.append((bias.value * length) ** 2)
        covered += bias.low <= 3.0 / length <= bias.high
    assert np.mean(squares) == pytest.approx(9.0, rel=0.03)
    assert covered >= 180  # of 200 intervals of 95%


def test_an_unbiased_method_has_zero_in_its_bias_interval():
    reference = np.ones(6) * 5 + noise(seed=1)
    ways = {str(seed): reference + noise(seed=seed + 10, scale=3.0) for seed in range(60)}
    found = bootstrap_gradients(ways, ways, reference, EVEN, yardstick="0", resamples=300).ways
    assert sum(seen.bias.low == 0 for seen in found.values()) >= 54


def test_effective_samples_compare_the_variances_of_leave_one_out_gradients():
    reference, plain = np.ones(6) * 5 + noise(), np.ones(6) * 5 + noise(seed=3, scale=3.0)
    ways = {"half": reference / 2, "plain": plain, "leaking": reference}
    left_out = {"half": reference, "plain": plain}
    found = bootstrap_gradients(ways, left_out, reference, EVEN, yardstick="plain").ways
    assert found["half"].bias.value == pytest.approx(0.5, rel=0.02)
    gain = found["half"].effective_samples
    assert gain is not None
    assert gain.value == pytest.approx(plain.var(0).sum() / reference.var(0).sum())
    assert gain.low < gain.value < gain.high
    itself = found["plain"].effective_samples
    assert itself is not None
    assert (itself.low, itself.value, itself.high) == pytest.approx((1, 1, 1))
    assert found["leaking"].effective_samples is None


def test_a_group_mean_baseline_of_n_samples_biases_the_gradient_by_one_nth():
    rng = np.random.default_rng(4)
    samples = [Sample("A", index, {"country": "A", "table": index // 4}) for index in range(800)]
    scores = rng.choice([-1.0, 1.0], (800, 8)).astype(np.float32)
    returns = (scores[:, 0] + np.repeat(rng.normal(size=200), 4) * 3).astype(np.float32)
    block = np.arange(800) // 4

    def gradients(advantages):
        return block_gradients(scores, advantages, block)

    methods = (NO_BASELINE, BATCH_MEAN, AdvantageMethod(keys=("country+table",)))
    ways = {str(method): gradients(method.advantages(samples, returns)) for method in methods}
    finest = gradients(reference_advantages(("country+table",), samples, returns, min_group_size=2))
    left_out = {**ways, "country+table": finest}
    found = bootstrap_gradients(ways, left_out, finest, np.full(200, 4), yardstick="batch").ways
    assert found["country+table"].bias.value == pytest.approx(1 / 4, abs=0.01)
    assert found["country+table"].deviation.value < found["none"].deviation.value / 2
    # A return varies by 1 + 9 about the batch's mean, by 1 + 1 / 3 about that of three others of its table.
    gain = found["country+table"].effective_samples
    assert gain is not None
    assert gain.low < 10 / (4 / 3) < gain.high
    assert found["none"].bias.low == 0


def test_too_few_blocks_and_batches_without_signal_are_refused():
    way = noise(blocks=3)
    with pytest.raises(ValueError, match="3 blocks"):
        one(way, turns=np.full(3, 5))
    with pytest.raises(ValueError, match="nothing in the batch has signal"):
        one(noise(blocks=5), np.zeros((5, 6)), np.full(5, 5))
