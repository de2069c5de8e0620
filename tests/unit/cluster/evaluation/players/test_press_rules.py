"""Games with letters are played by the rules that the policies in them were trained with, or a warning says which."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

import entente as entente_api
from cluster.actors.initial_policy import make_policy
from cluster.api.arguments import MOST_PRESS_ROUNDS
from cluster.cli.app import app
from cluster.configs.loader import dump_config, load_config
from cluster.errors import RunError
from cluster.evaluation.players.press_rules import chosen_press, press_settings
from grpo_core.checkpoints.store import save_checkpoint
from grpo_core.learner import Learner
from grpo_core.models.pretrained import save_model
from opponents.population.population import Population
from services.environments.diplomacy.settings import PRESS_ROUNDS, GameSettings

Make = Callable[..., Path]


@pytest.fixture
def run(tmp_path: Path) -> Make:
    def made(name: str, *sets: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.toml").write_text(dump_config(load_config("smoke", list(sets))))
        (folder / "run_id").write_text("run-0f\n")
        return folder

    return made


def test_one_runs_rules_are_played(run: Make) -> None:
    three = run(
        "three", "game.press_rounds=3", "game.press_public=true", "game.press_length=77", "game.press_budget=900"
    )
    silent = run("silent", "game.until_year=1904")
    for name in (three, three / "checkpoints" / "1", f"muted:{three}", f"lookahead:{three}"):
        if isinstance(name, Path):
            name.mkdir(parents=True, exist_ok=True)
        rules, warning = press_settings(["honest", str(silent), str(name), "remote:x", "champion", "nowhere"])
        assert rules == GameSettings(press_rounds=3, press_public=True, press_length=77, press_budget=900)
        assert warning is None


def test_members_of_a_population_have_their_runs_rules(run: Make) -> None:
    folder = run("members", "game.press_rounds=4")
    Population(folder / "population.json").save()
    assert press_settings([f"{folder}:policy/v1"])[0].press_rounds == 4


def test_players_without_such_a_run_play_private_letters(run: Make) -> None:
    for names in ([], ["honest", "breaker"], [str(run("silent"))], ["champion"]):
        assert press_settings(names) == (GameSettings(press_rounds=PRESS_ROUNDS), None)


def test_runs_that_disagree_are_named_with_their_rules(run: Make) -> None:
    one, other = run("one", "game.press_rounds=1"), run("other", "game.press_rounds=2", "game.press_budget=500")
    rules, warning = press_settings([str(one), str(other), str(one)])
    assert rules == GameSettings(press_rounds=1)
    assert warning == (
        "these games have 1 round of private letters of at most 1000 characters before each movement phase; "
        f"{other} was trained with 2 rounds of private letters of at most 1000 characters, 500 of a power in a game"
    )


def test_given_rules_go_first_and_are_told_where_they_differ(run: Make) -> None:
    one = run("one", "game.press_rounds=1", "game.press_length=50")
    rules, warning = press_settings([str(one)], 3, public=True)
    assert rules == GameSettings(press_rounds=3, press_public=True, press_length=50)
    assert warning is not None
    assert "3 rounds of private and public letters" in warning
    assert f"{one} was trained with 1 round of private letters" in warning
    assert press_settings([str(one)], 1, public=False) == (GameSettings(press_rounds=1, press_length=50), None)
    assert press_settings(["honest"], 3)[1] is None


def test_rules_of_letters_are_of_games_with_letters() -> None:
    assert chosen_press(["honest"], press=False, rounds=None, public=None) == (None, None)
    for rounds, public in ((2, None), (None, True), (None, False)):
        with pytest.raises(RunError, match="add --press"):
            chosen_press(["honest"], press=False, rounds=rounds, public=public)


def test_the_most_rounds_are_those_of_a_config() -> None:
    assert GameSettings(press_rounds=MOST_PRESS_ROUNDS)
    with pytest.raises(ValidationError):
        GameSettings(press_rounds=MOST_PRESS_ROUNDS + 1)


def rounds_played(game: Path) -> set[int]:
    """The rounds that had letters in a game of players that write in each."""
    phases = json.loads(game.read_text())["phases"]
    return {message["time_sent"] % 1_000_000 // 1000 for phase in phases for message in phase["messages"]}


def test_commands_play_by_the_runs_rules_and_say_when_others_were_trained(run: Make, tmp_path: Path) -> None:
    config = load_config("smoke", ["game.press_rounds=3", "imitation.teacher=chatter"])
    folder = run("three", "game.press_rounds=3", "imitation.teacher=chatter")
    model, tokenizer = make_policy(config.policy, 0, config.world.language)
    learner = Learner(model, config.learner, config.grouping, seed=0)
    save_checkpoint(folder, learner, lambda path: save_model(model, tokenizer, path), {})

    def entente(*words: object) -> tuple[str, str]:
        result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout, result.stderr

    table = ("--seat", f"FRANCE={folder}", "--default", "chatter", "--until", 1901, "--press")
    for options, rounds, warned in (((), 3, False), (("--press-rounds", 1), 1, True)):
        _, said = entente("play", *table, *options, "--out", tmp_path / "game.json")
        assert rounds_played(tmp_path / "game.json") == set(range(rounds))
        assert ("warning: these games have" in said) is warned
    words = ("evaluate", folder, "--press", "--against", "chatter", "--until", 1901, "--games-per-country", 1)
    _, said = entente(*words, "--processes", 1, "--public-press", "--json", tmp_path / "rows.json")
    assert "3 rounds of private and public letters" in said
    document = json.loads((tmp_path / "rows.json").read_text())
    assert {(row["press_rounds"], row["press_public"]) for row in document["evaluations"]} == {(3, "yes")}
    assert shlex.split(document["command"])[-2:] == ["--press", "--public-press"]
    with pytest.warns(UserWarning, match="was trained with 3 rounds"):
        entente_api.play({"FRANCE": str(folder)}, until_year=1901, press=True, press_rounds=2)
    with pytest.raises(RunError, match="press_rounds must be a whole number from 1 to 10"):
        entente_api.evaluate("honest", press=True, press_rounds=11)
