"""Importance, surfaces and plateaus of functions whose answers are known."""

import numpy as np
import pytest

from cluster.comparison.sensitivity.ranges import RANGES, Range, places, values
from cluster.comparison.sensitivity.surface import Surface, around_place, importances, plateau

NAMES = ("a", "b", "c")


def trials(function, count=90, noise=0.02, seed=0):
    draw = np.random.default_rng(seed)
    found = draw.random((count, 3))
    return found, np.array([function(*place) for place in found]) + noise * draw.normal(size=count)


def test_a_setting_matters_as_much_as_the_variance_that_it_makes():
    # Of x + y / 3, with even x and y, the first explains 0.9 of the variance and the second 0.1.
    shares = importances(*trials(lambda a, b, _c: a + b / 3, count=120, noise=0.0), NAMES, 0, resamples=8)
    assert shares[0].share == pytest.approx(0.9, abs=0.08)
    assert shares[1].share == pytest.approx(0.1, abs=0.06)
    assert shares[2].share < 0.03
    for each in shares:
        assert 0 <= each.low <= each.share <= each.high <= 1
    assert shares[0].low > shares[1].high


def test_equal_returns_leave_nothing_to_explain():
    found, _ = trials(lambda a, _b, _c: a, count=20)
    assert all((each.share, each.low, each.high) == (0, 0, 0) for each in importances(found, np.zeros(20), NAMES, 0))


def test_few_trials_have_wider_intervals():
    few, many = (importances(*trials(lambda a, b, _c: a + b, count), NAMES, 0, 10)[0] for count in (15, 100))
    assert few.high - few.low > many.high - many.low


def test_a_surface_finds_the_function_behind_the_noise():
    surface = Surface(*trials(lambda a, b, _c: np.sin(3 * a) + b, noise=0.1), 0)
    asked = np.random.default_rng(1).random((50, 3))
    assert surface.expected(asked) == pytest.approx(np.sin(3 * asked[:, 0]) + asked[:, 1], abs=0.15)
    grid = surface.over_two(0, 1, asked, 5)
    line = np.linspace(0, 1, 5)
    assert grid == pytest.approx(np.sin(3 * line)[:, None] + line[None, :], abs=0.15)


def plateau_and_peak(a, b, _c):
    """A peak of 1.2 that is a tenth wide at (0.15, 0.15), and a plateau of 1 half a range wide about (0.7, 0.7)."""
    peak = 1.2 * np.exp(-((a - 0.15) ** 2 + (b - 0.15) ** 2) / (2 * 0.04**2))
    broad = np.exp(-(max(abs(a - 0.7) - 0.15, 0) ** 2 + max(abs(b - 0.7) - 0.15, 0) ** 2) / (2 * 0.1**2))
    return max(peak, broad)


def test_a_broad_plateau_is_preferred_to_a_lone_peak():
    found, returns = trials(plateau_and_peak, count=150, noise=0.0)
    found[0], returns[0] = (0.15, 0.15, 0.5), 1.2
    chosen = plateau(Surface(found, returns, 0), found, returns, 0)
    assert chosen.best_trial == 0
    assert chosen.best_return == 1.2
    assert chosen.place[:2] == pytest.approx((0.7, 0.7), abs=0.2)
    assert chosen.around > chosen.best_around + 0.3


def test_neighbours_beyond_a_range_stand_at_its_end():
    found, returns = trials(lambda a, _b, _c: a, noise=0.0)
    surface = Surface(found, returns, 0)
    shifts = np.array([[0.1, 0.0, 0.0]] * 5)
    assert around_place(surface, np.array([1.0, 0.5, 0.5]), shifts) == pytest.approx(1.0, abs=0.05)


def test_a_surface_needs_trials():
    with pytest.raises(ValueError, match="10 trials"):
        Surface(*trials(lambda a, _b, _c: a, count=9), 0)


@pytest.mark.parametrize("each", RANGES, ids=lambda each: each.name)
def test_places_and_values_are_two_names_of_the_same(each: Range):
    assert each.value(0.0) == pytest.approx(each.low)
    assert each.value(1.0) == pytest.approx(each.high)
    assert each.value(2.0) == each.value(1.0)
    if not each.is_whole:
        for place in (0.0, 0.3, 1.0):
            assert each.place(float(each.value(place))) == pytest.approx(place)


def test_the_middle_of_a_logarithmic_range_is_its_geometric_mean():
    assert Range("rate", 1e-4, 1e-2, "logarithm").value(0.5) == pytest.approx(1e-3)
    assert Range("discount", 0.9, 0.999, "logarithm of 1 - value").value(0.5) == pytest.approx(0.99)
    assert places([values([0.5] * len(RANGES))])[0] == pytest.approx(0.5, abs=0.1)
