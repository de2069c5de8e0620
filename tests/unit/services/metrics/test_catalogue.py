from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_core.errors import one_line
from grpo_core.types import Measure, RoleMeasures
from services.metrics.catalogue import (
    CATALOGUE,
    METRICS,
    Metric,
    MetricsError,
    check,
    declare,
    evaluation_name,
    finite,
    key,
    known_metrics,
    parse_key,
    role_metrics,
    whole_table,
)
from tests.measured import CHAIRS, DIPLOMACY, TOPICS

label_text = st.text("ABCxyz019+-_./", min_size=1, max_size=12)
# Named by category: to find out which characters UTF-8 can hold, Hypothesis would encode a million of them.
any_character = st.characters(exclude_categories=["Cs"])
foreign_text = st.text(any_character, max_size=30) | st.text("%{},=\n\x1b[m\u202e\ud800 a2C", max_size=12)


@given(st.data())
def test_parse_key_inverts_key(data: st.DataObject) -> None:
    metric = data.draw(st.sampled_from(known_metrics()))
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


@pytest.mark.parametrize("metric", known_metrics(), ids=lambda metric: "-".join((metric.name, *metric.labels)))
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
    for measured in (DIPLOMACY, CHAIRS, TOPICS):
        names = [metric.name for metric in whole_table(measured)]
        assert len(set(names)) == len(names)
        assert CATALOGUE.keys() >= set(names)
        assert set(whole_table(measured)) == {*METRICS, *role_metrics(measured)}


def test_diplomacy_keeps_the_names_of_its_metrics() -> None:
    stems = [f"entente_country_{name}" for name in ("centers", "win_rate", "top_rate", "survival_rate")]
    assert [metric.name for metric in role_metrics(DIPLOMACY)] == [
        *(f"{stem}{end}" for stem in stems for end in ("", "_low", "_high")),
        *(f"entente_country_{name}" for name in ("reward", "reward_std", "phases", "episodes_total")),
        "entente_batch_centers", "entente_curriculum_level", "entente_evaluation_mean_centers",
        "entente_evaluation_win_rate", "entente_evaluation_centers", "entente_evaluation_centers_low",
        "entente_evaluation_centers_high",
    ]  # fmt: skip
    texts = {metric.name: metric.help for metric in role_metrics(DIPLOMACY)}
    assert texts["entente_country_centers"] == "Mean final centres, last 100 episodes"
    assert texts["entente_country_top_rate_low"] == (
        "Lower end of the 95% interval, clustered by block, of the share of games led, ties included"
    )
    assert texts["entente_country_centers_high"].endswith("of the mean centres")
    assert texts["entente_evaluation_win_rate"] == "Share of solos by country"
    assert texts["entente_evaluation_centers"] == "Mean centres, countries weighted equally"


def test_another_world_has_its_own_metrics_beside_them() -> None:
    check({
        "entente_chair_chips{chair=A}": -1.5, "entente_chair_showdown_rate_low{chair=B}": 0.5,
        "entente_batch_chips{chair=C}": 2,
        "entente_evaluation_mean_chips{against=random,chair=A}": 0.5, "entente_evaluation_chips{against=random}": 0.1,
        "entente_curriculum_level{chair=A}": 1, "entente_curriculum_level{country=ITALY}": 2,
    })  # fmt: skip
    with pytest.raises(MetricsError, match="unknown metric 'entente_chair_regret'"):
        key("entente_chair_regret", chair="A")  # only evaluations measure it
    with pytest.raises(MetricsError, match=r"takes labels \['country'\], not \['topic', 'x'\]"):
        key("entente_curriculum_level", topic="algebra", x="y")


def test_a_main_measure_without_a_column_has_a_metric_of_all_roles_beside_that_of_each() -> None:
    assert evaluation_name(TOPICS) == "entente_evaluation_solved_overall"
    check({
        "entente_evaluation_solved{against=test,topic=algebra}": 0.5,
        "entente_evaluation_solved_overall{against=test}": 0.5
    })  # fmt: skip


@pytest.mark.parametrize(
    ("role_name", "names", "message"),
    [
        ("chair", ("bytes", "bytes"), "the metric entente_chair_bytes has another meaning already"),
        ("buffer", ("bytes",), "the metric entente_buffer_bytes has another meaning already"),
        ("run", ("chips",), "'run' cannot be a role's name in metrics"),
        ("a chair", ("chips",), "'a chair' cannot be a role's name in metrics"),
        ("place", ("pass@1",), "'entente_place_pass@1' cannot be a metric's name"),
        ("place", ("episodes_total",), "the metric entente_place_episodes_total has another meaning already"),
    ],
)
def test_a_name_with_another_meaning_is_refused_and_adds_nothing(
    role_name: str, names: tuple[str, ...], message: str
) -> None:
    before = known_metrics()
    measures = tuple(Measure(name, name, "Other", "share of others", "share") for name in names)
    with pytest.raises(MetricsError, match=message):
        declare(RoleMeasures(role_name, ("A",), measures))
    declare(CHAIRS)
    assert known_metrics() == before


def test_a_later_world_that_calls_its_roles_alike_has_its_own_meanings() -> None:
    other = RoleMeasures("chair", ("A",), (Measure("chips", "chips", "Other", "mean of others", "mean"),))
    declare(other)
    try:
        assert parse_key("entente_chair_chips{chair=A}")[0].help.startswith("Mean of others")
    finally:
        declare(CHAIRS)
    assert parse_key("entente_chair_chips{chair=A}")[0].help.startswith("Mean chips won")


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
