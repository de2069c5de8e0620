"""Positions of saved games as starts of training games."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import fmean

import pytest

from grpo_core.seeds import derive_seed
from services.environments.diplomacy.bots.lookahead.simulation import Simulator
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.game_origin import GameOrigin
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.saved_game import SavedGameError
from services.environments.diplomacy.settings import DiplomacyEvaluation, DiplomacyImitation, GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.environments.seat_player import SeatPlayer

SEEDS = range(60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two games of three years; in the first "mine" plays FRANCE, in the second ITALY."""
    path = tmp_path_factory.mktemp("games")
    for seed, country in enumerate(("FRANCE", "ITALY")):
        game, rng = DiplomacyGame(1903, f"game-{seed}"), random.Random(seed)
        while not game.is_done:
            legal, places = game.position.legal, game.position.orderable
            for power in game.position.to_move:
                game.set_orders(power, [rng.choice(legal[place]) for place in places[power]])
            game.process()
        seats = {power: SeatPlayer("mine" if power == country else "random", "bot") for power in POWERS}
        game.origin = GameOrigin(seats, seed, 1903, "unknown", "0")
        game.save(path / f"{country.lower()}.json")
    return path


def world(folder: Path, **changed: object) -> Diplomacy:
    settings = {"saved_games": str(folder), "saved_share": 1.0, "until_year": 1935, **changed}
    return Diplomacy(GameSettings.model_validate(settings))


def test_the_share_of_the_blocks_begins_in_a_saved_movement_phase(folder: Path) -> None:
    drawn = [world(folder, saved_share=0.5).draw_start("FRANCE", seed) for seed in range(200)]
    assert 0.4 < sum(map(bool, drawn)) / len(drawn) < 0.6
    begun = {start for start in drawn if start}
    assert {start.split(":")[1] for start in begun} == {"france.json", "italy.json"}
    assert {start.split(":")[2] for start in begun} == {f"{season}190{year}M" for year in (1, 2, 3) for season in "SF"}
    assert world(folder, saved_share=0.5).draw_start("FRANCE", 7) == drawn[7]


def test_only_positions_of_the_wanted_players_and_years_are_drawn(folder: Path) -> None:
    mine = world(folder, saved_players=("mine",), until_year=1902)
    drawn = {mine.draw_start("ITALY", seed) for seed in SEEDS}
    assert drawn == {f"saved:italy.json:{season}190{year}M" for year in (1, 2) for season in "SF"}
    with pytest.raises(SavedGameError, match="has no game with TURKEY played by mine among 100"):
        mine.draw_start("TURKEY", 0)


def test_a_game_goes_on_from_the_saved_position(folder: Path) -> None:
    trained = world(folder, saved_years=2)
    start = "saved:france.json:F1902M"
    game = trained.new_game(start, "FRANCE", 5, game_id="block-0")
    assert game.start_facts("FRANCE") == {"start_year": 1902, "scenario": "saved", "fork": start}
    assert game.position == trained.new_game(start, "FRANCE", 6).position
    saved = DiplomacyGame.load(folder / "france.json", 1999)
    states = dict(saved._engine.state_history.items())
    state = states[next(name for name in states if str(name) == "F1902M")]
    assert {power: sorted(state["units"][power]) for power in POWERS} == {
        power: sorted(game.position.units[power]) for power in POWERS
    }
    while not game.is_done:
        game.step(dict.fromkeys(game.to_act(), ()))
    assert game.position.year == 1904  # 1902 and 1903 were played
    assert game.result().standing is None
    assert '"id": "block-0"' in game.saved()


def test_without_years_it_goes_on_as_whole_games_do(folder: Path) -> None:
    game = world(folder, quiet_years=1).new_game("saved:france.json:S1903M", "FRANCE", 0)
    assert (game.until_year, game.quiet_years) == (1935, 1)


def test_evaluations_imitation_and_ratings_play_whole_games(folder: Path) -> None:
    trained, evaluation = world(folder), DiplomacyEvaluation(games_per_country=2)
    assert trained.parting_facts == ("scenario", "fork")
    assert {game.start for game in trained.evaluation_games(evaluation, "random", 0)} == {""}
    others = (trained.as_evaluated(evaluation), trained.as_imitated(DiplomacyImitation()), trained.as_rated())
    assert {each.draw_start("FRANCE", seed) for each in others for seed in SEEDS} == {""}


def test_what_cannot_be_begun_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"saved_share: name a folder of saved games in game\.saved_games"):
        Diplomacy(GameSettings(saved_share=0.5))
    with pytest.raises(SavedGameError, match="holds no"):
        world(tmp_path).check_files(None)
    (tmp_path / "wrong.json").write_text("{}")
    with pytest.raises(SavedGameError, match="not a saved game"):
        world(tmp_path).check_files(None)
    world(folder).check_files(None)
    with pytest.raises(SavedGameError, match="has no phase S1950M; were its files changed"):
        world(folder).new_game("saved:france.json:S1950M", "FRANCE", 0)


def test_a_decision_is_worth_the_mean_of_its_simulated_games(folder: Path) -> None:
    trained, start = world(folder, saved_playouts=5), "saved:france.json:F1902M"
    game = trained.new_game(start, "FRANCE", 5, game_id="block-0")
    assert game.to_act() == ("FRANCE",)
    assert game.start_facts("FRANCE")["fork"] == start
    with pytest.raises(RuntimeError, match="FRANCE has not decided yet"):
        game.result()
    position = game.position
    orders = make_bot("greedy").actions(position, "FRANCE", 1)
    step = game.step({"FRANCE": orders})
    assert game.is_done
    bots = [make_bot("dumbbot")], [make_bot("dumbbot"), make_bot("greedy")]
    simulator = Simulator(position, "FRANCE", *bots, 1903)
    ends = [simulator.centers(orders, derive_seed(0, "playout", start, number)) for number in range(5)]
    assert len(set(ends)) > 1
    assert step.parts == {"FRANCE": {"center_change": fmean(ends) - len(position.centers["FRANCE"])}}
    result = game.result()
    assert result.outcomes["FRANCE"]["centers"] == fmean(ends)
    assert result.outcomes["ITALY"]["centers"] == len(position.centers["ITALY"])
    played = world(folder, saved_years=1).new_game(start, "FRANCE", 5)
    while not played.is_done:
        played.step(dict.fromkeys(played.to_act(), ()))
    assert set(result.outcomes["FRANCE"]) == set(played.result().outcomes["FRANCE"])
    again = trained.new_game(start, "FRANCE", 6).step({"FRANCE": orders})
    assert again.parts == step.parts  # games of a block, whose seeds differ, meet the same simulated games
    holding = trained.new_game(start, "FRANCE", 6).step({"FRANCE": ()})
    assert holding.parts != step.parts


def test_bots_of_simulated_games_are_checked(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"game\.playout_opponents"):
        world(folder, saved_playouts=1, playout_opponents=("nobody",))
    assert world(folder, playout_opponents=("nobody",)).new_game("", "FRANCE", 0) is not None
