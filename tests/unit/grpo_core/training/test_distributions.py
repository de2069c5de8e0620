import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from grpo_core.training.distributions import MOST_BINS, NARROWEST, QUANTILES, bin_width, by_role, distributions

VALUES = arrays(np.float64, st.integers(1, 60), elements=st.floats(-1e6, 1e6, allow_subnormal=False))


@given(VALUES)
@example(np.array([-4.23246732e-180, 1.0]))  # their difference is rounded to 1
def test_a_histogram_counts_what_numpy_counts_between_the_same_edges(values):
    found = by_role(["FRANCE"] * len(values), values)
    width, cell = found["width"], found["roles"]["FRANCE"]
    edges = (cell["first"] + np.arange(len(cell["bins"]) + 1)) * width
    assert sum(cell["bins"]) == cell["count"] == len(values)
    assert len(cell["bins"]) <= MOST_BINS
    # Numpy's last bin is closed; its own edge is never reached here.
    assert cell["bins"] == np.histogram(values, edges)[0].tolist()
    assert edges[0] <= values.min() < edges[1]
    assert edges[-2] <= values.max() < edges[-1]


@given(VALUES)
def test_moments_and_quantiles_are_numpys(values):
    cell = by_role(["FRANCE"] * len(values), values)["roles"]["FRANCE"]
    close = {"rel": 1e-5, "abs": 1e-5 * max(1.0, np.abs(values).max())}
    assert cell["quantiles"] == pytest.approx(np.quantile(values, QUANTILES).tolist(), **close)
    assert cell["mean"] == pytest.approx(np.mean(values), **close)
    assert cell["std"] == pytest.approx(np.std(values), **close)
    assert cell["mean_abs"] == pytest.approx(np.mean(np.abs(values)), **close)


@given(VALUES)
@example(np.array([-4.23246732e-180, 1.0]))
def test_the_width_is_the_smallest_power_of_two_that_is_enough(values):
    width = bin_width(values)
    span = values.max() - values.min()
    assert np.log2(width) == np.round(np.log2(width))
    assert span <= (MOST_BINS - 1) * width
    assert width >= NARROWEST
    if width > NARROWEST and span > 1e-4 * np.abs(values).max():
        assert span >= (MOST_BINS - 1) * width / 2  # equal where a larger difference was rounded


def test_roles_are_apart_and_all_of_them_together():
    returns = np.array([1.0, 2.0, 5.0, 7.0], np.float32)
    found = distributions(["ITALY", "FRANCE", "ITALY", "FRANCE"], returns, returns * 0)
    assert found["returns"]["roles"]["ITALY"]["quantiles"][3] == 3.0
    assert found["returns"]["roles"]["FRANCE"]["mean"] == 4.5
    assert (found["returns"]["all"]["count"], found["returns"]["all"]["quantiles"][3]) == (4, 3.5)
    assert found["advantages"]["roles"]["ITALY"]["bins"] == [2]
    json.dumps(found, allow_nan=False)


def test_values_that_are_not_finite_are_left_out():
    values = np.array([1.0, np.nan, np.inf, 3.0])
    found = by_role(["FRANCE", "FRANCE", "ITALY", "FRANCE"], values)
    assert found["roles"].keys() == {"FRANCE"}
    assert found["all"]["count"] == 2
    nothing = by_role(["ITALY"], np.array([np.nan]))
    assert (nothing["roles"], nothing["all"], nothing["width"]) == ({}, None, 1.0)
    assert by_role([], np.array([]))["roles"] == {}
