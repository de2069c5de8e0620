"""The area under the curve: against the definition, scikit-learn, DeLong's variance and simulated coverage."""

from __future__ import annotations

import itertools
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from grpo_core.statistics.roc import area_under_curve

SCORES = st.lists(st.lists(st.integers(0, 5).map(float), max_size=4), min_size=2, max_size=6)


@given(SCORES, st.data())
def test_it_is_the_share_of_pairs_in_the_right_order(positive: list[list[float]], data: st.DataObject) -> None:
    lists = st.lists(st.integers(0, 5).map(float), max_size=4)
    negative = data.draw(st.lists(lists, min_size=len(positive), max_size=len(positive)))
    ups, downs = list(itertools.chain(*positive)), list(itertools.chain(*negative))
    found = area_under_curve(positive, negative)
    if not ups or not downs:
        assert found is None
        return
    assert found is not None
    pairs = [float(up > down) + (up == down) / 2 for up in ups for down in downs]
    assert found.mean == pytest.approx(np.mean(pairs))
    assert found.mean == pytest.approx(roc_auc_score([1] * len(ups) + [0] * len(downs), [*ups, *downs]))
    assert found.n == len(ups) + len(downs)
    if found.interval is not None:
        assert 0 <= found.interval[0] <= found.mean <= found.interval[1] <= 1


def test_with_clusters_of_one_value_the_variance_is_delongs() -> None:
    """DeLong 1988: the variances of both kinds of placements, each over its own number."""
    rng = np.random.default_rng(0)
    ups, downs = rng.normal(1, 1, 60), rng.normal(0, 1, 80)
    found = area_under_curve([[up] for up in ups] + [[]] * len(downs), [[]] * len(ups) + [[down] for down in downs])
    assert found is not None
    assert found.interval is not None
    of_ups = [(up > downs).mean() for up in ups]
    of_downs = [(ups > down).mean() for down in downs]
    squared = np.var(of_ups, ddof=1) / len(ups) + np.var(of_downs, ddof=1) / len(downs)
    half = (found.interval[1] - found.interval[0]) / 2
    assert half == pytest.approx(1.977 * np.sqrt(squared), rel=0.02)


def test_intervals_hold_where_values_of_a_cluster_go_together() -> None:
    """A cluster's positives and negatives move together, and some clusters have none of either."""
    rng = np.random.default_rng(1)
    held, widths = 0, []
    for _ in range(200):
        shift = rng.normal(0, 1, 30)
        positive = [list(1.0 + move + rng.normal(0, 0.5, 5)) for move in shift] + [[], []]
        negative = [list(move + rng.normal(0, 0.5, 5)) for move in shift] + [[], []]
        found = area_under_curve(positive, negative)
        assert found is not None
        assert found.interval is not None
        # Pairs within a cluster, one in 30, differ by N(1, 0.5); all others by N(1, 2.5).
        truth = (norm.cdf(1 / np.sqrt(0.5)) + 29 * norm.cdf(1 / np.sqrt(2.5))) / 30
        held += found.interval[0] <= truth <= found.interval[1]
        widths.append(found.interval[1] - found.interval[0])
    assert 0.9 * 200 <= held < 200
    apart = area_under_curve([*positive, *([] for _ in negative)], [*([] for _ in positive), *negative])
    assert apart is not None
    assert apart.interval is not None
    assert fmean(widths) < 0.9 * (apart.interval[1] - apart.interval[0]), "their covariance narrows the interval"


def test_clusters_without_values_do_not_count() -> None:
    positive, negative = [[0.6, 0.2], [0.9], [0.4]], [[0.5], [0.1], [0.7, 0.3]]
    assert area_under_curve([*positive, *([[]] * 98)], [*negative, *([[]] * 98)]) == area_under_curve(
        positive, negative
    )


def test_what_gives_no_interval_has_none() -> None:
    assert area_under_curve([[1.0, 2.0]], [[0.0]]).interval is None  # type: ignore[union-attr]
    assert area_under_curve([[1.0], [2.0]], [[0.0], [0.5]]).interval is None  # type: ignore[union-attr]
    assert area_under_curve([], []) is None
