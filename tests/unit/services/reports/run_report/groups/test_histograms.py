from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from grpo_core.training.distributions import by_role
from services.reports.run_report.groups.histograms import MOST_BINS, common_width, pooled
from services.reports.run_report.schema import Spreads

UPDATES = st.lists(
    arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e4, 1e4, allow_subnormal=False)), min_size=1, max_size=6
)


def spreads(values: Any, role: str = "FRANCE") -> Spreads:
    return msgspec.convert(by_role([role] * len(values), np.asarray(values, np.float64)), Spreads)


@given(UPDATES)
def test_pooled_histograms_are_the_histogram_of_all_values_together(updates: list[Any]) -> None:
    records = [spreads(values) for values in updates]
    width = common_width(records)
    assert width is not None
    found = pooled(records, width)
    assert found is not None
    together = np.concatenate(updates)
    edges = (found.first + np.arange(len(found.shares) + 1)) * width
    counts, _ = np.histogram(together, edges)
    assert found.samples == len(together)
    assert found.shares == pytest.approx((counts / len(together)).tolist())
    assert sum(found.shares) == pytest.approx(1.0)
    assert len(found.shares) <= MOST_BINS
    assert found.mean == pytest.approx(together.mean(), rel=1e-4, abs=1e-4 * max(1.0, np.abs(together).max()))


def test_a_role_is_apart_from_all() -> None:
    values = np.array([0.0, 0.0, 1.0, 5.0])
    record = msgspec.convert(by_role(["FRANCE", "FRANCE", "ITALY", "ITALY"], values), Spreads)
    whole, own = pooled([record], record.width), pooled([record], record.width, "FRANCE")
    assert whole is not None
    assert own is not None
    assert (whole.samples, own.samples) == (4, 2)
    assert whole.shares[0] == 0.5
    assert own.shares == (1.0,)
    assert pooled([record], record.width, "TURKEY") is None


def test_nothing_has_no_histogram() -> None:
    assert common_width([]) is None
    assert common_width([Spreads(width=1.0)]) is None
    assert pooled([Spreads(width=1.0)], 1.0) is None
