from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap

from grpo_core.statistics.ratios import ratio_of_means


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_the_interval_is_that_of_scipys_bootstrap() -> None:
    draw = np.random.default_rng(1)
    of, to = draw.gamma(9.0, 10.0, size=12), draw.gamma(9.0, 3.0, size=9)
    found = ratio_of_means(of.tolist(), to.tolist(), generator(), resamples=40_000)
    assert found is not None
    assert found.mean == pytest.approx(of.mean() / to.mean())
    theirs = bootstrap(
        (of, to), lambda a, b, axis: a.mean(axis) / b.mean(axis), n_resamples=40_000, method="percentile", rng=2
    ).confidence_interval
    assert found.interval == pytest.approx((theirs.low, theirs.high), rel=0.02)


def test_it_covers_the_true_ratio_about_as_often_as_it_says() -> None:
    draw = np.random.default_rng(3)
    held = 0
    for number in range(200):
        of, to = draw.gamma(9.0, 3.0, size=10), draw.gamma(9.0, 1.0, size=10)
        found = ratio_of_means(of.tolist(), to.tolist(), generator(number), resamples=1000)
        assert found is not None
        assert found.interval is not None
        held += found.interval[0] <= 3.0 <= found.interval[1]
    assert held / 200 > 0.87


def test_without_a_positive_mean_there_is_no_ratio_and_with_one_value_no_interval() -> None:
    assert ratio_of_means([], [1.0], generator()) is None
    assert ratio_of_means([1.0, 2.0], [0.0, 0.0], generator()) is None
    assert ratio_of_means([-1.0, -2.0], [1.0, 2.0], generator()) is None
    alone = ratio_of_means([6.0], [2.0, 4.0], generator())
    assert alone is not None
    assert (alone.mean, alone.interval) == (2.0, None)
