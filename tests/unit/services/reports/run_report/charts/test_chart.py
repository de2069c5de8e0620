from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.reports.run_report.charts.chart import course, line, number, rounded, thinned


@given(st.lists(st.integers(), max_size=200), st.integers(1, 50))
def test_thinning_keeps_the_last_point_and_equal_steps(values: list[int], most: int) -> None:
    places = thinned(list(range(len(values))), most)
    assert len(places) <= most
    assert [values[place] for place in places] == thinned(values, most)
    if values:
        assert places[-1] == len(values) - 1
        assert len({later - earlier for earlier, later in pairwise(places)}) <= 1


def test_a_long_line_says_its_true_ends() -> None:
    points = ([float(x) for x in range(1, 5001)], [x / 2 for x in range(1, 5001)])
    found = line(points, "loss", "@ink")
    assert len(found["x"]) <= 400
    assert found["say"] == "loss: 0.5 in update 1, 2,500 in update 5000"
    assert course("loss", ([], [])) == "loss: no data"
    assert course("loss", ([3], [1.25])) == "loss: 1.25 in update 3"


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.12345, "0.123"), (-12.0, "-12"), (123456.0, "123,456"), (1e-5, "1e-05")]
)
def test_figures_in_words_are_short(value: float, text: str) -> None:
    assert number(value) == text


@given(st.floats(-1e12, 1e12))
def test_rounding_keeps_five_digits_and_whole_numbers(value: float) -> None:
    assert rounded({"y": [value, 123456789, "text", None, True]})["y"][1:] == [123456789, "text", None, True]
    assert rounded(value) == pytest.approx(value, rel=1e-4, abs=1e-300)
