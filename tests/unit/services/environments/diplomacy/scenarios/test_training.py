"""Scenarios as starts of training games: drawn by share, played to the horizon, kept out of evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_core.errors import EntenteError
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.scenarios.files import shipped, write
from services.environments.diplomacy.scenarios.scenario import ScenarioError
from services.environments.diplomacy.scenarios.scenario_game import ScenarioGame
from services.environments.diplomacy.settings import DiplomacyEvaluation, DiplomacyImitation, GameSettings
from services.environments.diplomacy.world import Diplomacy
from tests.unit.services.environments.diplomacy.scenarios.scenario_cases import scenario

SEEDS = range(400)


def world(share: float, *names: str) -> Diplomacy:
    return Diplomacy(GameSettings(scenarios=names, scenario_share=share))


def test_without_a_share_every_game_is_a_whole_one() -> None:
    for each in (Diplomacy(GameSettings()), world(0.0, "all")):
        assert {each.draw_start(power, seed) for power in POWERS for seed in range(20)} == {""}
    game = Diplomacy(GameSettings()).new_game("", "FRANCE", 0)
    assert game.start_facts("FRANCE") == {"start_year": 1901, "scenario": "none"}


def test_the_share_of_the_blocks_begins_in_a_scenario_of_the_country() -> None:
    drawn = [world(0.25, "crisis", "opening").draw_start("ITALY", seed) for seed in SEEDS]
    assert 0.18 < sum(map(bool, drawn)) / len(drawn) < 0.32
    assert {shipped()[start].country for start in drawn if start} == {"ITALY"}
    assert {shipped()[start].family for start in drawn if start} == {"crisis", "opening"}
    own = [start for start in drawn if start]
    assert all(own.count(each) > len(own) / 8 for each in set(own))
    assert len(set(own)) == 4
    assert world(0.25, "crisis", "opening").draw_start("ITALY", 3) == drawn[3]


def test_a_country_without_a_scenario_plays_whole_games() -> None:
    assert {world(1.0, "italy-opening-lepanto").draw_start("FRANCE", seed) for seed in SEEDS} == {""}


def test_a_training_game_begins_there_and_ends_at_the_horizon() -> None:
    trained = world(1.0, "alliance")
    start = trained.draw_start("TURKEY", 1)
    game = trained.new_game(start, "TURKEY", 5, game_id="block-0")
    assert isinstance(game, ScenarioGame)
    assert game.start_facts("TURKEY") == {"start_year": 1902, "scenario": start, "fork": start}
    assert game.position == trained.new_game(start, "TURKEY", 6).position
    while not game.is_done:
        game.step(dict.fromkeys(game.to_act(), ()))
    assert game.position.year > shipped()[start].year
    result = game.result()
    assert result.standing is None  # a game from an uneven position rates no one
    assert result.outcomes["TURKEY"]["centers"] == game.centers()["TURKEY"]


def test_evaluations_imitation_and_ratings_play_whole_games() -> None:
    trained, evaluation = world(1.0, "all"), DiplomacyEvaluation(games_per_country=2)
    assert {game.start for game in trained.evaluation_games(evaluation, "random", 0)} == {""}
    others = (trained.as_evaluated(evaluation), trained.as_imitated(DiplomacyImitation()), trained.as_rated())
    assert {each.draw_start("FRANCE", seed) for each in others for seed in range(20)} == {""}


def test_own_files_can_be_trained_on(tmp_path: Path) -> None:
    write(scenario(), tmp_path / "mine.toml")
    trained = world(1.0, str(tmp_path))
    trained.check_files(None)
    assert trained.draw_start("ITALY", 0) == "two-armies"
    assert trained.new_game("two-armies", "ITALY", 0).phase == "S1903M"


@pytest.mark.parametrize(
    ("names", "reason"),
    [(("lepanto",), "no scenario is called 'lepanto'"), (("none/",), "none: cannot be read"), (("none.toml",), "none")],
)
def test_unknown_scenarios_are_refused_before_a_run(names: tuple[str, ...], reason: str) -> None:
    with pytest.raises(EntenteError, match=reason):
        world(0.5, *names).check_files(None)


def test_an_impossible_position_is_refused_before_a_run(tmp_path: Path) -> None:
    write(scenario(units={"ITALY": ["A ION"]}), tmp_path / "mine.toml")
    with pytest.raises(ScenarioError, match="A ION cannot stand on the map"):
        world(0.5, str(tmp_path / "mine.toml")).check_files(None)


def test_a_share_needs_scenarios_and_is_a_share() -> None:
    with pytest.raises(ValueError, match=r"scenario_share: name the scenarios in game\.scenarios"):
        Diplomacy(GameSettings(scenario_share=0.5))
    changed: dict[str, Any] = {"scenarios": ("all",), "scenario_share": 1.5}
    with pytest.raises(ValueError, match="less than or equal to 1"):
        GameSettings(**changed)


def test_a_start_that_is_gone_is_named() -> None:
    with pytest.raises(ScenarioError, match=r"game\.scenarios has no scenario 'france-opening-burgundy'"):
        world(1.0, "crisis").new_game("france-opening-burgundy", "FRANCE", 0)


def test_a_language_model_is_told_the_task_and_no_one_else_is() -> None:
    trained = world(1.0, "alliance")
    game = trained.new_game("italy-alliance-austria", "ITALY", 0)
    told = {part.name: part.text for part in trained.language.sections(game.view("ITALY"), "ITALY")}
    assert told["task"].startswith("Your task: You are allied with Austria against Turkey.")
    assert "task" not in {part.name for part in trained.language.sections(game.view("AUSTRIA"), "AUSTRIA")}
    whole = Diplomacy(GameSettings()).new_game("", "ITALY", 0)
    assert "task" not in {part.name for part in trained.language.sections(whole.view("ITALY"), "ITALY")}


def test_the_small_policy_has_the_words_of_every_scenario() -> None:
    language, known = Diplomacy.language, set(Diplomacy.language.words())
    from services.environments.diplomacy.text.notation import split

    for each in shipped().values():
        game = ScenarioGame.begin(each)
        assert set(split(language.prompt(game.view(each.country), each.country))) <= known, each.id
