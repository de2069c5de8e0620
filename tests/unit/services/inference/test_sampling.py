from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from services.inference.sampling import sample, stream, uniforms


def draws(seed: int, count: int) -> np.ndarray:
    return uniforms(np.full(count, stream(seed), np.uint64), np.arange(count, dtype=np.uint64))


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.floats(0.3, 3))
def test_logprobs_are_those_of_a_renormalised_softmax(seed: int, rows: int, temperature: float) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, 12)).astype(np.float32) * 4
    admissible = [np.sort(rng.choice(12, rng.integers(1, 13), replace=False)).astype(np.int32) for _ in range(rows)]
    temperatures = np.full(rows, temperature)
    tokens, logprobs = sample(logits, admissible, temperatures, rng.random(rows))
    for row in range(rows):
        expected = torch.log_softmax(torch.from_numpy(logits[row, admissible[row]]).double() / temperature, -1)
        place = int(np.flatnonzero(admissible[row] == tokens[row])[0])
        assert logprobs[row] == pytest.approx(float(expected[place]), abs=1e-5)


def test_frequencies_follow_the_probabilities() -> None:
    logits = np.log(np.array([[0.1, 5.0, 0.2, 0.7]], np.float32))
    ids = np.array([0, 2, 3], np.int32)
    count = 20_000
    tokens, _ = sample(np.repeat(logits, count, 0), [ids] * count, np.ones(count), draws(7, count))
    for token, probability in ((0, 0.1), (2, 0.2), (3, 0.7)):
        share = float(np.mean(tokens == token))
        # Five standard deviations of a binomial share.
        assert abs(share - probability) < 5 * math.sqrt(probability * (1 - probability) / count)


def test_a_row_does_not_depend_on_other_rows() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(40, 30)).astype(np.float32)
    admissible = [np.sort(rng.choice(30, rng.integers(2, 9), replace=False)).astype(np.int32) for _ in range(40)]
    randoms, temperatures = rng.random(40), rng.choice([0.0, 0.7, 1.0], 40)
    together, _ = sample(logits, admissible, temperatures, randoms)
    for row in range(40):
        one = slice(row, row + 1)
        alone, _ = sample(logits[one], admissible[one], temperatures[one], randoms[one])
        assert alone[0] == together[row]


def test_greedy_takes_the_likeliest_id_and_the_lowest_of_equals() -> None:
    logits = np.array([[9.0, 1.0, 3.0, 3.0]], np.float32)
    tokens, logprobs = sample(logits, [np.array([1, 2, 3], np.int32)], np.zeros(1), np.array([0.99]))
    assert tokens.tolist() == [2]
    assert logprobs[0] == pytest.approx(3 - math.log(math.e + 2 * math.e**3), abs=1e-6)


@given(st.integers(-(2**70), 2**70))
def test_any_integer_seeds_a_stream(seed: int) -> None:
    values = draws(seed, 3)
    assert ((values >= 0) & (values < 1)).all()
    assert (values == draws(seed, 3)).all()


def test_neighbouring_seeds_and_draws_are_uncorrelated() -> None:
    table = np.stack([draws(seed, 200) for seed in range(200)])
    assert len(np.unique(table)) == table.size
    for correlation in (
        np.corrcoef(table[:-1].ravel(), table[1:].ravel())[0, 1],
        np.corrcoef(table[:, :-1].ravel(), table[:, 1:].ravel())[0, 1],
    ):
        assert abs(correlation) < 0.03
    assert abs(table.mean() - 0.5) < 0.01


def test_logits_that_are_not_finite_are_an_error() -> None:
    logits = np.array([[0.0, math.nan]], np.float32)
    with pytest.raises(FloatingPointError, match="not finite"):
        sample(logits, [np.array([0, 1], np.int32)], np.ones(1), np.array([0.5]))
