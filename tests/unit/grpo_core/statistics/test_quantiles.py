from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from grpo_core.statistics.quantiles import beta_quantile, student_t_quantile, two_sided_quantile, two_sided_tail


@pytest.mark.parametrize(
    ("probability", "freedom", "expected"),
    [
        # From printed tables of Student's distribution.
        (0.975, 1, 12.7062047362),
        (0.975, 2, 4.3026527297),
        (0.975, 5, 2.5705818356),
        (0.975, 10, 2.2281388520),
        (0.975, 30, 2.0422724563),
        (0.975, 120, 1.9799304051),
        (0.95, 4, 2.1318467863),
        (0.995, 7, 3.4994832974),
    ],
)
def test_t_quantiles_agree_with_tables(probability: float, freedom: float, expected: float) -> None:
    assert student_t_quantile(probability, freedom) == pytest.approx(expected, abs=1e-9)


def test_t_quantiles_have_closed_forms_at_one_and_two_degrees_of_freedom() -> None:
    for probability in (0.6, 0.9, 0.99, 0.9999):
        cauchy = math.tan(math.pi * (probability - 0.5))
        assert student_t_quantile(probability, 1) == pytest.approx(cauchy, rel=1e-9)
        two = (2 * probability - 1) / math.sqrt(2 * probability * (1 - probability))
        assert student_t_quantile(probability, 2) == pytest.approx(two, rel=1e-9)


@given(st.floats(0.001, 0.999), st.floats(0.5, 1e5))
def test_t_quantiles_are_symmetric_and_shrink_with_freedom(probability: float, freedom: float) -> None:
    quantile = student_t_quantile(probability, freedom)
    assert quantile == pytest.approx(-student_t_quantile(1 - probability, freedom), rel=1e-6, abs=1e-9)
    assert abs(quantile) >= abs(student_t_quantile(probability, freedom * 2)) - 1e-7


@given(st.floats(1e-9, 1 - 1e-9), st.floats(0.5, 1e4))
def test_two_sided_quantiles_are_those_of_scipy(tail: float, freedom: float) -> None:
    level = 1 - tail
    assert two_sided_quantile(level, freedom) == pytest.approx(stats.t.isf((1 - level) / 2, freedom), rel=1e-6)
    assert two_sided_quantile(level) == pytest.approx(stats.norm.isf((1 - level) / 2), rel=1e-9, abs=1e-12)
    assert two_sided_tail(two_sided_quantile(level)) == pytest.approx(1 - level, rel=1e-9)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 1.5, math.nan])
def test_an_interval_of_no_probability_or_of_certainty_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        two_sided_quantile(level)


def test_beta_quantiles_are_those_of_scipy() -> None:
    for probability, a, b in ((0.05, 1.0, 70.0), (0.05, 2.5, 68.5), (0.5, 3.0, 1.0)):
        assert beta_quantile(probability, a, b) == pytest.approx(stats.beta.ppf(probability, a, b), rel=1e-9)
