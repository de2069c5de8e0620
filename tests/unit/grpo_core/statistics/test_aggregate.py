"""Scores over tasks and runs: against SciPy, by properties, and whether intervals hold what they should."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from grpo_core.statistics.aggregate import aggregate_score, interquartile_mean, lowest_mean, performance_profile

runs = st.lists(st.floats(-100, 100), min_size=1, max_size=12)
tables = st.dictionaries(st.sampled_from("abcd"), runs, min_size=1)


@pytest.mark.parametrize("tasks", [1, 3])
def test_with_whole_quarters_it_is_scipys_trimmed_mean(tasks: int) -> None:
    rng = np.random.default_rng(tasks)
    scores = {str(task): rng.normal(size=8).tolist() for task in range(tasks)}
    flat = np.concatenate(list(scores.values()))
    assert interquartile_mean(scores) == pytest.approx(stats.trim_mean(flat, 0.25))


def test_scores_on_the_border_count_in_part() -> None:
    assert interquartile_mean({"a": [0.0, 1.0, 5.0]}) == pytest.approx((0 / 12 + 1 / 3 + 5 / 12) / (1 / 2))
    assert interquartile_mean({"a": [7.0]}) == 7
    # Quarters of two scores: the upper half of the lower one and the lower half of the upper one.
    assert interquartile_mean({"a": [1.0, 3.0]}) == 2


def test_tasks_weigh_the_same_whatever_their_numbers_of_runs() -> None:
    scores = {"many": [0.0] * 30, "few": [1.0] * 3}
    assert interquartile_mean(scores) == pytest.approx(0.5)
    (half,) = performance_profile(scores, [0.5], np.random.default_rng(0))
    assert half.mean == pytest.approx(0.5)


@given(tables, st.randoms())
def test_order_does_not_matter_and_shifts_and_scales_carry_over(scores, random) -> None:
    found = interquartile_mean(scores)
    shuffled = {name: random.sample(each, len(each)) for name, each in scores.items()}
    assert interquartile_mean(shuffled) == pytest.approx(found, abs=1e-9)
    moved = {name: [2 * score + 3 for score in each] for name, each in scores.items()}
    assert interquartile_mean(moved) == pytest.approx(2 * found + 3, abs=1e-9)
    values = [score for each in scores.values() for score in each]
    assert min(values) - 1e-9 <= found <= max(values) + 1e-9


@given(tables)
def test_a_profile_falls_from_one_to_zero(scores) -> None:
    values = sorted(score for each in scores.values() for score in each)
    thresholds = [values[0] - 1, *values, values[-1] + 1]
    shares = [each.mean for each in performance_profile(scores, thresholds, np.random.default_rng(1))]
    assert shares[0] == pytest.approx(1)
    assert shares[-1] == 0
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(shares))


def test_an_interval_holds_the_true_figure_nearly_as_often_as_it_says() -> None:
    rng, held = np.random.default_rng(3), 0
    repeats = 150
    for _ in range(repeats):
        scores = {str(task): rng.normal(task, 1, 10).tolist() for task in range(3)}
        found = aggregate_score(scores, rng)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1.0 <= found.high  # the scores lie around 1 alike on both sides
    assert held / repeats > 0.88


def test_single_runs_have_no_interval_and_missing_ones_are_refused() -> None:
    found = aggregate_score({"a": [1.0], "b": [2.0]}, np.random.default_rng(0))
    assert (found.mean, found.low, found.high, found.n) == (1.5, None, None, 2)
    with pytest.raises(ValueError, match="every task needs a score"):
        aggregate_score({"a": []}, np.random.default_rng(0))


def test_the_lowest_mean_is_of_one_task_and_its_interval_is_that_tasks_where_it_lies_apart() -> None:
    rng = np.random.default_rng(3)
    low, high = rng.normal(size=10), rng.normal(loc=50, size=10)
    found = lowest_mean({"low": low.tolist(), "high": high.tolist()}, np.random.default_rng(0))
    expected = stats.bootstrap((low,), np.mean, method="percentile", random_state=1).confidence_interval
    assert found.mean == pytest.approx(low.mean())
    assert found.interval == pytest.approx((expected.low, expected.high), abs=0.05)
    assert lowest_mean({"low": [1.0, 2.0], "one": [0.5]}, rng).interval is None
