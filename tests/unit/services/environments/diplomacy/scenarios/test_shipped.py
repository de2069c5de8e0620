"""Every shipped scenario: playable, complete by country and family, and true to what it says."""

from __future__ import annotations

from collections import Counter

import pytest

from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.legal import standard_map
from services.environments.diplomacy.scenarios.files import LIBRARY, from_file, shipped
from services.environments.diplomacy.scenarios.scenario import FAMILIES, Scenario, phase_number
from services.environments.diplomacy.scenarios.scenario_game import ScenarioGame
from tests.unit.services.environments.diplomacy.scenarios.scenario_cases import played

ALL = list(shipped().values())


def test_each_country_has_two_scenarios_of_each_family() -> None:
    cells = Counter((each.family, each.country) for each in ALL)
    assert cells == {(family, power): 2 for family in FAMILIES for power in POWERS}


def test_ids_are_the_names_of_the_files_in_the_family_s_folder() -> None:
    for path in LIBRARY.rglob("*.toml"):
        scenario = from_file(path)
        assert (scenario.id, scenario.family) == (path.stem, path.parent.name)
        assert scenario.id.startswith(f"{scenario.country.lower()}-{scenario.family}-")
    assert len({each.title for each in ALL}) == len(ALL)


@pytest.mark.parametrize("scenario", ALL, ids=lambda each: each.id)
def test_a_scenario_is_a_position_of_the_game(scenario: Scenario) -> None:
    game = ScenarioGame.begin(scenario)
    position = game.position
    assert position.phase == scenario.phase
    for power in POWERS:
        assert set(position.units[power]) == set(scenario.units.get(power, ())), power
        assert set(position.centers[power]) == set(scenario.centers.get(power, ())), power
        assert len(position.units[power]) <= len(position.centers[power])
    board = standard_map()
    assert set(scenario.centers[scenario.country]) <= set(board.scs)
    assert all(len(position.legal[place]) > 1 for place in position.orderable[scenario.country])
    for power, other in scenario.others.items():
        legal = {order for place in position.orderable[power] for order in position.legal[place]}
        assert set(other.orders.get(scenario.phase, ())) <= legal, power


@pytest.mark.parametrize("scenario", ALL, ids=lambda each: each.id)
def test_a_scenario_ends_at_its_horizon_with_a_score(scenario: Scenario) -> None:
    game = played(scenario, "random", seed=3)
    assert game.is_done
    last = game.record().moves[-1].position.phase
    assert phase_number(last) <= phase_number(scenario.horizon)
    solo = max(game.centers().values()) >= 18
    assert solo or game.position.year > scenario.year or not game.to_act()
    assert 0 <= game.score() <= 1
    assert played(scenario, "random", seed=3).score() == game.score()


def test_tasks_and_notes_name_no_file_and_are_sentences() -> None:
    for each in ALL:
        for text in (each.task, each.notes):
            assert text[0].isupper(), each.id
            assert text.endswith("."), each.id
            assert "  " not in text, each.id
