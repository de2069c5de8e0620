from __future__ import annotations

import pytest
from scipy import stats

from grpo_core.statistics.estimate import Estimate
from grpo_core.statistics.means import stratified_mean
from grpo_core.statistics.sequential import SequentialDesign


def test_a_look_has_the_boundarys_value_and_its_tail_as_a_t_quantile() -> None:
    design = SequentialDesign(looks=5, boundary="pocock")
    assert design.critical_value(3) == pytest.approx(2.413, abs=6e-4)
    assert design.look_level(3) == pytest.approx(1 - 2 * stats.norm.sf(design.critical_value(3)))
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    found = design.repeated_interval(lambda level: stratified_mean({"a": values}, level=level), 3)
    assert found is not None
    half = stats.t.isf(stats.norm.sf(design.critical_value(3)), 4) * 0.5**0.5
    assert found.interval == pytest.approx((3 - half, 3 + half))


def test_a_single_look_is_the_plain_interval() -> None:
    for boundary in ("pocock", "obrien_fleming"):
        assert SequentialDesign(1, boundary).look_level(1) == pytest.approx(0.95)


def test_the_first_of_many_looks_is_strict_and_finite() -> None:
    design = SequentialDesign(looks=20, boundary="obrien_fleming")
    assert design.critical_value(1) > 9
    assert 0.999999 < design.look_level(1) < 1
    levels = [design.look_level(look) for look in range(1, 21)]
    assert levels == sorted(levels, reverse=True)


def test_one_stops_for_precision_for_a_difference_and_at_the_end() -> None:
    design = SequentialDesign(looks=3)
    estimate = Estimate(1.0, 0.5, 1.7, 10)
    assert not design.is_finished(estimate, 1)
    assert design.is_finished(estimate, 1, half_width=0.6000001)
    assert not design.is_finished(estimate, 1, half_width=0.59)
    assert design.is_finished(estimate, 1, null=0.0)
    assert not design.is_finished(estimate, 1, half_width=0.1, null=1.6)
    for unknown in (None, Estimate(1.0, None, None, 1)):
        assert not design.is_finished(unknown, 2, half_width=9.0, null=5.0)
        assert design.is_finished(unknown, 3)


def test_looks_come_at_equal_steps() -> None:
    assert SequentialDesign(looks=5).schedule(100) == (20, 40, 60, 80, 100)
    assert SequentialDesign(looks=3).schedule(10) == (4, 7, 10)
    with pytest.raises(ValueError, match="too few"):
        SequentialDesign(looks=5).schedule(4)


def test_a_design_refuses_what_it_does_not_plan() -> None:
    for look in (0, 4):
        with pytest.raises(ValueError, match="not planned"):
            SequentialDesign(looks=3).critical_value(look)
    with pytest.raises(ValueError, match="number of looks"):
        SequentialDesign(looks=0)
