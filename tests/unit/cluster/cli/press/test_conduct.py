"""``entente conduct``: a table and JSON of saved games with press, and one-line errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import entente as entente_api
from cluster.cli.app import app
from cluster.errors import RunError
from services.environments.diplomacy.saved_game import SavedGameError
from tests.unit.cluster.cli.test_evaluation import entente


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "games"
    folder.mkdir()
    for seed in (1, 2):
        entente("play", "--press", "--seat", "FRANCE=honest", "--default", "breaker", "--until", 1903, "--seed", seed,
                "--out", folder / f"{seed}.json")  # fmt: skip
    return folder


def test_the_table_tells_who_keeps_promises(games: Path, tmp_path: Path) -> None:
    said = entente("conduct", games, "--json", tmp_path / "conduct.json")
    assert "Conduct in 2 games" in said
    assert "promises" in said
    rows = {
        (row["player"], row["other"]): row for row in json.loads((tmp_path / "conduct.json").read_text())["conduct"]
    }
    assert rows["honest", "breaker"]["honesty"] == 1.0
    assert rows["breaker", "honest"]["honesty"] < 0.5
    low, high = rows["breaker", "breaker"]["attack_rate_ci95"]
    assert low <= rows["breaker", "breaker"]["attack_rate"] <= high
    assert rows["breaker", "breaker"]["games"] == 2


def test_trust_over_the_years_ends_with_that_of_whole_games(games: Path, tmp_path: Path) -> None:
    said = entente("conduct", games, "--by-year", "--json", tmp_path / "conduct.json")
    assert "Promises kept by the end of each year" in said
    assert all(year in said for year in ("1901", "1902", "1903"))
    document = json.loads((tmp_path / "conduct.json").read_text())
    last = {(row["player"], row["other"]): row["honesty"] for row in document["by_year"] if row["year"] == 1903}
    assert last
    assert last == {
        (row["player"], row["other"]): row["honesty"] for row in document["conduct"] if row["honesty"] is not None
    }
    assert "end of each year" not in entente("conduct", games)


def test_a_folder_of_folders_of_games_is_read_as_well(games: Path) -> None:
    assert "Conduct in 2 games" in entente("conduct", games.parent)


def test_json_can_be_all_that_is_printed(games: Path) -> None:
    said = CliRunner().invoke(app, ["conduct", str(games / "1.json"), "--json", "-"], catch_exceptions=False)
    assert json.loads(said.stdout)["games"] == 1


def test_files_that_are_no_games_are_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.json").write_text("{}")
    for path, error, message in (
        (tmp_path / "nowhere", RunError, "no such file or folder"),
        (tmp_path / "empty", RunError, r"holds no \*.json file"),
        (tmp_path / "other.json", SavedGameError, "not a saved game"),
    ):
        with pytest.raises(error, match=message) as found:
            entente("conduct", path)
        assert "\n" not in str(found.value)


def test_the_api_plays_with_press_too(tmp_path: Path) -> None:
    game = entente_api.play({"FRANCE": "honest"}, default="honest", until_year=1901, press=True)
    document = json.loads(game.save(tmp_path / "game.json").read_text())
    assert any(phase["messages"] for phase in document["phases"])
