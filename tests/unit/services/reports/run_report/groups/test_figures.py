from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.reports.run_report.groups.buckets import bucketed
from services.reports.run_report.groups.figures import RUNNING, by_role, by_size, figures, name_of, recurring, role_of
from services.reports.run_report.schema import Audit, Group

GROUPS = st.lists(
    st.builds(
        Group,
        key=st.just(["FRANCE", "S1901M"]),
        level=st.just("country+phase"),
        size=st.integers(1, 30),
        judged=st.integers(0, 30),
        mean=st.none() | st.floats(-10, 10),
        std=st.none() | st.floats(0, 10),
        zero_variance=st.booleans(),
    ),
    max_size=20,
)


@given(GROUPS)
def test_figures_are_averages_by_judged_samples(groups: list[Group]) -> None:
    found = figures(groups)
    judged = np.array([group.judged for group in groups], float)
    assert found.judged == judged.sum()
    for name in ("mean", "std"):
        values = np.array([np.nan if (value := getattr(group, name)) is None else value for group in groups], float)
        known = ~np.isnan(values) & (judged > 0)
        mine = getattr(found, name)
        if known.any():
            assert mine == pytest.approx(np.average(values[known], weights=judged[known]), abs=1e-9)
        else:
            assert mine is None
    if judged.sum():
        zero = np.array([group.zero_variance for group in groups])
        assert found.zero_variance == pytest.approx(np.average(zero, weights=judged))
    else:
        assert found.zero_variance is None


def test_samples_without_a_group_have_no_mean() -> None:
    running = Group(key=["FRANCE"], level=RUNNING, size=3, judged=3, mean=5.0, std=1.0)
    group = Group(key=["FRANCE", "S1901M"], level="country+phase", size=1, judged=1, mean=1.0, std=0.0)
    found = figures([running, group])
    assert (found.judged, found.mean, found.std) == (4, 1.0, 0.0)
    assert figures([running]).mean is None


def test_the_role_is_found_wherever_it_stands_in_a_key() -> None:
    group = Group(key=["S1901M", "ITALY", 3], level="phase+country+own_centers:3")
    assert role_of(group, "country") == "ITALY"
    assert name_of(group, "country") == ("phase+country+own_centers:3", "S1901M · 3")
    assert role_of(Group(key=["ITALY"], level=RUNNING), "country") == "ITALY"
    assert role_of(Group(key=[], level="country"), "country") is None
    assert role_of(Group(key=["x"], level="phase"), "country") is None
    assert name_of(Group(key=[None, 0.5], level="country+fork"), "country")[1] == "0.5"


def audit(version: int, *phases: str, size: int = 4, role: str = "FRANCE") -> Audit:
    groups = [
        Group(key=[role, phase], level="country+phase", size=size, judged=size, mean=float(version), std=1.0)
        for phase in phases
    ]
    return Audit(version=version, groups=groups)


def test_groups_recur_by_name_and_stand_in_the_order_of_the_game() -> None:
    audits = [audit(1, "S1901M", "F1901M", "S1902M"), audit(2, "S1901M", "F1901M", "W1901A", "S1902M"),
              audit(3, "S1901M", "F1901M", "W1901A")]  # fmt: skip
    rows = recurring(bucketed(audits))["FRANCE"]
    assert [text for _, text in rows] == ["S1901M", "F1901M", "W1901A", "S1902M"]
    assert [row.mean for row in rows["country+phase", "W1901A"]] == [None, 2.0, 3.0]


def test_keys_that_come_once_are_no_rows() -> None:
    audits = [audit(version, f"question {version}") for version in range(1, 40)]
    assert recurring(bucketed(audits)) == {}
    assert by_role(bucketed(audits))["FRANCE"][6].mean == 7.0
    assert recurring(bucketed(audits[:1])).keys() == {"FRANCE"}, "of a run of one update, each group is a row"


def test_a_bucket_has_the_mean_of_its_updates() -> None:
    audits = [audit(version, "S1901M") for version in range(1, 201)]
    buckets = bucketed(audits)
    assert len(buckets) == 100
    assert by_role(buckets)["FRANCE"][0].mean == 1.5
    assert by_size(buckets) == {"3–4": [1.0] * 100}


def test_sizes_are_counted_by_class() -> None:
    groups = [Group(key=["FRANCE"], level="country", size=size, judged=size) for size in (1, 2, 3, 4, 5, 64, 65, 10**9)]
    running = Group(key=["FRANCE"], level=RUNNING, size=2, judged=2)
    found = by_size(bucketed([Audit(version=1, groups=[*groups, running])]))
    assert found == {"1": [1], "2": [1], "3–4": [2], "5–8": [1], "33–64": [1], "65 or more": [2]}


@pytest.mark.parametrize(("count", "most", "sizes"), [(0, 5, []), (1, 5, [1]), (5, 5, [1] * 5), (7, 3, [1, 3, 3]),
                                                      (500, 100, [5] * 100)])  # fmt: skip
def test_buckets_are_equal_and_end_with_the_last_update(count: int, most: int, sizes: list[int]) -> None:
    buckets = bucketed([Audit(version=version) for version in range(1, count + 1)], most)
    assert [len(bucket.audits) for bucket in buckets] == sizes
    assert [audit.version for bucket in buckets for audit in bucket.audits] == list(range(1, count + 1))
    if count == 7:
        assert [bucket.label for bucket in buckets] == ["update 1", "updates 2–4", "updates 5–7"]
