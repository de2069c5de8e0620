from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from grpo_core.statistics.boundaries import MOST_LOOKS, critical_values, crossing_probability


@pytest.mark.parametrize(
    ("looks", "pocock", "obrien_fleming"),
    # Jennison and Turnbull, Group Sequential Methods (2000), tables 2.1 and 2.3.
    [(1, 1.960, 1.960), (2, 2.178, 1.977), (3, 2.289, 2.004), (4, 2.361, 2.024), (5, 2.413, 2.040), (10, 2.555, 2.087)],
)
def test_constants_are_the_published_ones(looks: int, pocock: float, obrien_fleming: float) -> None:
    assert critical_values(looks, "pocock", 0.95) == pytest.approx([pocock] * looks, abs=6e-4)
    found = critical_values(looks, "obrien_fleming", 0.95)
    assert found == pytest.approx([obrien_fleming * math.sqrt(looks / look) for look in range(1, looks + 1)], abs=3e-3)
    assert found[-1] == pytest.approx(obrien_fleming, abs=6e-4)


def test_other_levels_have_their_published_constants() -> None:
    assert critical_values(5, "pocock", 0.99)[0] == pytest.approx(2.986, abs=6e-4)
    assert critical_values(5, "obrien_fleming", 0.9)[-1] == pytest.approx(1.751, abs=6e-4)


def test_crossing_probabilities_agree_with_a_multivariate_normal_distribution() -> None:
    looks = np.arange(1, 4)
    correlation = np.sqrt(np.minimum.outer(looks, looks) / np.maximum.outer(looks, looks))
    for bounds in ([2.0, 2.0, 2.0], [3.0, 2.2, 1.9], [1.0, 2.5, 0.7]):
        inside = stats.multivariate_normal.cdf(
            bounds, cov=correlation, lower_limit=[-each for each in bounds], abseps=1e-8, releps=1e-8, rng=1
        )
        assert crossing_probability(bounds) == pytest.approx(1 - inside, abs=1e-6)


@pytest.mark.parametrize("boundary", ["pocock", "obrien_fleming"])
def test_simulated_sums_cross_as_often_as_they_should(boundary: str) -> None:
    rng = np.random.default_rng(3)
    bounds = critical_values(MOST_LOOKS, boundary, 0.95)  # type: ignore[arg-type]
    sums = rng.normal(size=(40_000, MOST_LOOKS)).cumsum(1) / np.sqrt(np.arange(1, MOST_LOOKS + 1))
    assert (np.abs(sums) > bounds).any(1).mean() == pytest.approx(0.05, abs=0.004)  # 3.7 standard errors


def test_designs_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="number of looks"):
        critical_values(0, "pocock", 0.95)
    with pytest.raises(ValueError, match="number of looks"):
        critical_values(MOST_LOOKS + 1, "pocock", 0.95)
    with pytest.raises(ValueError, match="level"):
        critical_values(3, "pocock", 1.0)
    with pytest.raises(ValueError, match="no boundary 'haybittle'"):
        critical_values(3, "haybittle", 0.95)  # type: ignore[arg-type]
