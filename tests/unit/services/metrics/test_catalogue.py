from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_core.errors import one_line
from services.metrics.catalogue import CATALOGUE, METRICS, Metric, MetricsError, check, finite, key, parse_key

label_text = st.text("ABCxyz019+-_./", min_size=1, max_size=12)
# Named by category: to find out which characters UTF-8 can hold, Hypothesis would encode a million of them.
any_character = st.characters(exclude_categories=["Cs"])
foreign_text = st.text(any_character, max_size=30) | st.text("%{},=\n\x1b[m\u202e\ud800 a2C", max_size=12)


@given(st.data())
def test_parse_key_inverts_key(data: st.DataObject) -> None:
    metric = data.draw(st.sampled_from(sorted(CATALOGUE.values(), key=lambda metric: metric.name)))
    labels = {name: data.draw(label_text) for name in metric.labels}
    assert parse_key(key(metric.name, **labels)) == (metric, tuple(labels[name] for name in metric.labels))


@given(foreign_text, foreign_text)
def test_any_text_can_be_a_label_and_comes_back_printable(against: str, country: str) -> None:
    text = key("entente_evaluation_win_rate", against=against, country=country)
    metric, labels = parse_key(text)
    assert labels == tuple(one_line(value, 200) or "-" for value in (against, country))
    assert text.isprintable()
    assert key(metric.name, against=labels[0], country=labels[1]) == text
    check({text: 1.0})


def test_a_long_label_is_cut() -> None:
    assert len(parse_key(key("entente_rating", player="x" * 10_000))[1][0]) <= 200


def test_finite_leaves_out_what_has_no_number() -> None:
    values = {"entente_loss": math.nan, "entente_kl": 0.5, "entente_weight_swap_seconds": [0.1, math.inf]}
    assert finite(values) == {"entente_kl": 0.5}


@pytest.mark.parametrize("metric", CATALOGUE.values(), ids=lambda metric: metric.name)
def test_metrics_follow_prometheus_conventions(metric: Metric) -> None:
    assert metric.name.startswith("entente_")
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.unit
    assert metric.help[0].isupper()
    assert not metric.help.endswith(".")
    assert bool(metric.buckets) == (metric.kind == "histogram")
    assert all(low < high for low, high in pairwise(metric.buckets))
    assert not metric.whole or (metric.kind == "gauge" and metric.labels)


def test_metric_names_are_unique() -> None:
    assert len(CATALOGUE) == len(METRICS)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"entente_los": 1.0}, "did you mean 'entente_loss'"),
        ({"entente_country_centers": 3.0}, "takes labels ['country']"),
        ({"entente_loss{country=FRANCE}": 1.0}, "takes labels []"),
        ({"entente_country_centers{power=FRANCE}": 3.0}, "takes labels ['country']"),
        ({"entente_evaluation_win_rate{country=ITALY,against=random}": 0.1}, "is no metric key"),
        ({"entente_country_centers{country=}": 3.0}, "is no metric key"),
        ({"entente_country_centers{country=A%2cB}": 3.0}, "is no metric key"),
        ({"entente_country_centers{country=FRANCE": 3.0}, "is no metric key"),
        ({"entente_loss": [1.0]}, "takes one number"),
        ({"entente_weight_swap_seconds": 0.1}, "takes a list of observations"),
        ({"entente_loss": math.nan}, "leave out what has no data"),
        ({"entente_weight_swap_seconds": [0.1, math.inf]}, "leave out what has no data"),
    ],
)
def test_check_refuses_measurements_that_do_not_fit_the_catalogue(values: dict[str, float], message: str) -> None:
    with pytest.raises(MetricsError) as raised:
        check(values)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
