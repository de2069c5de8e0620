"""The boards of a world's roles; ``entente monitoring`` writes them."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from services.environments.diplomacy.measures.definitions import PRESS_MEASURES
from services.environments.diplomacy.press.pairs import PAIR_MEASURES
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.metrics.catalogue import role_metrics
from services.metrics.dashboards.all_dashboards import dashboards
from services.metrics.dashboards.countries import board
from services.metrics.dashboards.grafana import dashboard_json
from services.metrics.dashboards.panels import PERCENT
from services.metrics.dashboards.press import press_board
from tests.measured import CHAIRS, DIPLOMACY, TOPICS


def test_diplomacys_boards_are_the_same_beside_those_of_another_world() -> None:
    alone = {made.uid: made for made in dashboards((DIPLOMACY,))}
    both = {made.uid: made for made in dashboards((DIPLOMACY, CHAIRS))}
    assert list(alone) == ["entente-countries", "entente-opponents", "entente-learning", "entente-machinery"]
    assert list(both) == [
        "entente-countries", "entente-chairs", "entente-opponents", "entente-learning", "entente-machinery"
    ]  # fmt: skip
    assert {uid for uid in alone if alone[uid] != both[uid]} == {
        "entente-opponents"
    }  # the levels of both worlds' roles


def test_every_metric_of_a_worlds_roles_is_in_a_panel() -> None:
    for measured in (DIPLOMACY, CHAIRS, TOPICS):
        asked = {
            name
            for made in dashboards((measured,))
            for row in made.rows
            for panel in row.panels
            for query in panel.queries
            for name in re.findall(r"\bentente_[a-z_]+", query.expr)
        }
        assert {metric.name for metric in role_metrics(measured)} <= asked


def test_another_worlds_board_speaks_of_its_own_roles() -> None:
    made = board(CHAIRS)
    assert (made.uid, made.title) == ("entente-chairs", "Entente: chairs")
    now, everyone, evaluations, each = made.rows
    assert everyone.title == "All chairs, last 100 episodes of each"
    assert [panel.title for panel in everyone.panels] == ["Chips", "Showdowns", "Bets"]
    assert everyone.panels[0].minimum is None, "chips may be lost"
    assert [panel.title for panel in evaluations.panels] == [
        "Chips against two $against", "Chips in the latest evaluation", "Showdowns in the latest evaluation"
    ]  # fmt: skip
    assert evaluations.panels[1].text == "Mean chips won of each chair against two of each bot."
    assert evaluations.panels[1].by == ("chair", "against")
    assert (each.title, each.repeat) == ("$chair", "chair")
    text = dashboard_json(made, {})
    assert not re.search("countr|centre|center(?!s?Text)|solo", text.replace('"color_scheme"', ""), re.IGNORECASE)
    chosen = {variable["name"]: variable.get("query") for variable in json.loads(text)["templating"]["list"]}
    assert chosen["chair"] == 'label_values(entente_chair_chips{run="$run"}, chair)'
    assert chosen["against"] == 'label_values(entente_evaluation_chips{run="$run"}, against)'
    assert now == board(DIPLOMACY).rows[0]


def test_the_board_of_tasks_for_one_player_names_no_opponents() -> None:
    evaluations = board(TOPICS).rows[2]
    assert evaluations.title == "Evaluations"
    assert evaluations.panels[0].title == "Solved on $against"
    assert evaluations.panels[1].text == "Share of problems solved of each topic."


def test_the_board_of_press_shows_what_games_without_it_do_not_measure() -> None:
    measured = Diplomacy(GameSettings(press_rounds=1)).measured
    made = press_board(measured, DIPLOMACY)
    together, each, pairs, by_partner = made.rows
    assert [panel.title for panel in together.panels] == [
        "Honesty", "Cross-supports", "Effective cross-supports", "Attacks"
    ]  # fmt: skip
    assert [panel.title for panel in each.panels] == [measure.title for measure in PRESS_MEASURES]
    known = {metric.name for metric in role_metrics(measured)}
    for row in made.rows:
        for panel in row.panels:
            for query in panel.queries:
                names = set(re.findall(r"\bentente_[a-z_]+", query.expr))
                assert names
                assert names <= known
    titles = [measure.title for measure in PAIR_MEASURES]
    assert [panel.title for panel in pairs.panels] == [panel.title for panel in by_partner.panels] == titles
    assert {panel.by for panel in pairs.panels} == {("country", "partner")}
    assert by_partner.repeat == "country"
    text = dashboard_json(made, {"partner": {"FRANCE": "#123456"}})
    assert "entente_country_honesty" in text
    assert "#123456" in text
    chosen = {variable["name"]: variable.get("query") for variable in json.loads(text)["templating"]["list"]}
    assert chosen["country"] == 'label_values(entente_country_centers{run="$run"}, country)'


def test_honesty_of_all_is_a_share_of_all_promises_in_percent() -> None:
    made = press_board(Diplomacy(GameSettings(press_rounds=1)).measured, DIPLOMACY)
    together, each, *_ = ({panel.title: panel for panel in row.panels} for row in made.rows)
    honesty, promises = (f'max by (country) (entente_country_{name}{{run="$run"}})' for name in ("honesty", "promises"))
    assert together["Honesty"].queries[0].expr == f"sum ({honesty} * on(country) {promises}) / (sum ({promises}) > 0)"
    for panel in (together["Honesty"], each["Honesty"], each["Honesty of partners"]):
        assert (panel.unit, panel.maximum) == (PERCENT, 1.0)
    assert each["Promises"].maximum is None
    assert together["Attacks"].queries[0].expr.startswith("avg (")


def test_the_board_of_press_of_a_world_without_pairs_has_no_panels_of_them() -> None:
    measured = replace(Diplomacy(GameSettings(press_rounds=1)).measured, pairs=())
    assert [row.title for row in press_board(measured, DIPLOMACY).rows] == ["All countries together", "By country"]
