"""Scenarios of saved games."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_core.seeds import derive_seed
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.saved_game import SavedGameError
from services.environments.diplomacy.scenarios.files import from_file, write
from services.environments.diplomacy.scenarios.from_game import scenario_of
from services.environments.diplomacy.scenarios.scenario import FAMILIES, ScenarioError
from services.environments.diplomacy.scenarios.scenario_game import ScenarioGame
from tests.unit.services.environments.diplomacy.scenarios.scenario_cases import played


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A game of greedy bots to 1905, and the positions in which a power had something to decide."""
    bot, game, step = make_bot("greedy"), DiplomacyGame(1905), 0
    while not game.is_done:
        position = game.position
        game.step({power: bot.actions(position, power, derive_seed(step, power)) for power in game.to_act()})
        step += 1
    path = tmp_path_factory.mktemp("games") / "My game.json"
    game.save(path)
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_a_phase_of_a_saved_game_becomes_a_scenario(family: str, file: Path, tmp_path: Path) -> None:
    partner = "ITALY" if family == "alliance" else None
    made = scenario_of(file, "S1903M", "FRANCE", family=family, years=1, partner=partner)  # type: ignore[arg-type]
    assert (made.id, made.horizon) == ("my-game-s1903m-france", "W1904A")
    write(made, tmp_path / "mine.toml")
    assert from_file(tmp_path / "mine.toml") == made
    again = DiplomacyGame.load(file, 1905).saved()
    assert '"S1903M"' in again
    assert 0 <= played(made, "dumbbot").score() <= 1


def test_every_phase_of_a_saved_game_can_be_a_scenario(file: Path) -> None:
    from services.environments.diplomacy.played_phases import played_phases
    from services.environments.diplomacy.saved_game import read_saved_game

    kinds = set()
    for phase in played_phases(read_saved_game(file), "game"):
        position = phase.position
        kinds.add(position.kind)
        country = position.to_move[0]
        game = ScenarioGame.begin(scenario_of(file, position.phase, country))
        assert game.position == position
        assert {power: game.centers()[power] for power in POWERS} == {
            power: len(position.centers[power]) for power in POWERS
        }
    assert kinds == {"M", "R", "A"}


def test_a_phase_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(ScenarioError, match=r"has no phase 'S1999M' with orders; it goes from S1901M to W?F?1905"):
        scenario_of(file, "S1999M", "FRANCE")


def test_an_alliance_needs_a_partner(file: Path) -> None:
    with pytest.raises(ScenarioError, match=r"score\.partner: the family alliance needs it"):
        scenario_of(file, "S1903M", "FRANCE", family="alliance")


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text("{}")
    with pytest.raises(SavedGameError, match="not a saved game"):
        scenario_of(tmp_path / "no.json", "S1903M", "FRANCE")
