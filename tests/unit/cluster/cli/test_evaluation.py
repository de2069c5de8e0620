"""``entente evaluate`` and ``entente play`` to a year and to the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.cli.app import app
from cluster.errors import RunError


def entente(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_games_to_the_end_are_draws_once_no_centre_changes_hands(tmp_path: Path) -> None:
    out, rows = tmp_path / "game.json", tmp_path / "rows.json"
    assert "draw after 10 phases, 1905" in entente("play", "--default", "hold", "--until", "end", "--out", out)
    said = entente("evaluate", "hold", "--against", "hold", "--games-per-country", 2, "--until", "end", "--json", rows)
    assert "14 games to 1935, or a draw after 5 years without a change of centres" in said
    (row,) = json.loads(rows.read_text())["evaluations"]
    assert row["until_year"] == "1935, or a draw after 5 years without a change of centres"
    assert row["mean_centers"] == 22 / 7
    said = entente("evaluate", "hold", "--against", "hold", "--games-per-country", 1, "--until", 1902, "--json", rows)
    assert "7 games to 1902 " in said
    assert json.loads(rows.read_text())["evaluations"][0]["until_year"] == 1902
    assert "to the end of 1935, or a draw after quiet years: 5" in entente("report", out)


@pytest.mark.parametrize("words", [("evaluate", "hold"), ("play", "--out", "game.json")])
def test_another_ending_is_refused_before_anything_is_played(words: tuple[str, ...]) -> None:
    for until in ("1900", "never"):
        with pytest.raises(RunError, match=f"--until: '{until}' is neither a year from 1901 to 1999 nor 'end'"):
            entente(*words, "--until", until)


def test_the_json_says_how_to_play_the_same_games_again(tmp_path: Path) -> None:
    options = ("--against", "random", "--games-per-country", 1, "--until", 1901, "--seed", 3)
    entente("evaluate", "dumbbot", *options, "--temperature", 0.5, "--json", tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["command"] == f"entente evaluate dumbbot {' '.join(map(str, options))} --temperature 0.5"
    assert found["temperature"] == 0.5
    assert found["commit"]
