"""``entente scenarios``: lists, shows, plays and makes scenarios."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from cluster.cli.app import app
from cluster.cli.games.scenario_tables import print_scores
from cluster.evaluation.scenario_runs import run_scenarios
from grpo_core.errors import EntenteError
from opponents.players.chat_players import ChatPlayers
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.scenarios.files import LIBRARY, named, shipped
from services.environments.diplomacy.scenarios.scenario import FAMILIES


def invoke(*arguments: str | Path | int) -> Result:
    done = CliRunner().invoke(app, ["scenarios", *map(str, arguments)])
    if done.exception is not None:
        raise done.exception
    return done


def entente(*arguments: str | Path | int) -> str:
    return invoke(*arguments).stdout


def test_the_list_as_json_goes_to_stdout_alone() -> None:
    rows = json.loads(entente("list", "--json", "-"))
    assert len(rows) >= 56
    assert {row["family"] for row in rows} == set(FAMILIES)
    assert {row["country"] for row in rows} == set(POWERS)
    assert [row["id"] for row in rows] == list(shipped())


def test_the_list_as_text_and_in_a_file(tmp_path: Path) -> None:
    text = entente("list", "--family", "crisis,endgame", "--country", "italy", "--json", tmp_path / "list.json")
    assert len([line for line in text.splitlines() if " ITALY " in line]) == 4
    assert text.splitlines()[4].startswith("4 scenarios")
    assert len(json.loads((tmp_path / "list.json").read_text())) == 4


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["list", "--family", "middlegame"], "there is no family 'middlegame'; there are opening, alliance, crisis"),
        (["list", "--country", "spain"], "there is no country 'SPAIN'; there are AUSTRIA"),
        (["list", "--file", "nowhere.toml"], "nowhere.toml: cannot be read"),
        (["show", "lepanto"], "no scenario is called 'lepanto'"),
        (["show", "crisis"], "crisis are 14 scenarios; name one"),
        (["run", "nobody"], "'nobody' is neither a bot"),
        (["run", "loyal:nobody"], "'nobody' is neither a bot"),
        (["run", "hold", "--scenario", "nothing"], "no scenario is called 'nothing'"),
        (["run", "hold", "--csv", "no/where.csv"], "there is no folder no"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments: list[str], reason: str) -> None:
    with pytest.raises(EntenteError, match=re.escape(reason)):
        invoke(*arguments)


def test_show_has_the_board_the_task_the_score_and_the_others() -> None:
    text = entente("show", "austria-alliance-lepanto")
    given = shipped()["austria-alliance-lepanto"]
    assert f"Task: {given.task}" in text
    assert f"Notes: {given.notes}" in text
    assert "> AUSTRIA  A BUD, A SER, A TRI, A VIE, F GRE" in text
    assert "5 centres: BUD GRE SER TRI VIE" in text
    assert "goal 3, partner ITALY" in text
    assert "supports AUSTRIA into BUL, CON" in text
    assert "  TURKEY   dumbbot" in text


def test_every_scenario_can_be_shown() -> None:
    for name in shipped():
        assert f"\n{shipped()[name].family}, {shipped()[name].country}, " in entente("show", name)


def test_show_writes_a_page_of_the_board(tmp_path: Path) -> None:
    entente("show", LIBRARY / "crisis" / "italy-crisis-venice-lost.toml", "--html", tmp_path / "board.html")
    page = (tmp_path / "board.html").read_text()
    given = shipped()["italy-crisis-venice-lost"]
    assert given.phase in page
    assert given.task.removesuffix(".") in page
    assert "http://" not in re.sub(r"http://www\.w3\.org/[\w./]+", "", page)


def test_run_prints_scores_and_writes_json_and_csv(tmp_path: Path) -> None:
    arguments = ("--family", "crisis", "--country", "italy,france", "--repeats", 2)
    text = entente(
        "run", "hold", "random", *arguments, "--json", tmp_path / "scores.json", "--csv", tmp_path / "games.csv"
    )
    assert "Scores from 0 to 1" in text
    document = json.loads((tmp_path / "scores.json").read_text())
    with (tmp_path / "games.csv").open() as file:
        games = list(csv.DictReader(file))
    assert len(games) == len(document["games"]) == 2 * 4 * 2
    assert [float(game["score"]) for game in games] == [game["score"] for game in document["games"]]
    whole = json.loads(entente("run", "hold", "random", *arguments, "--json", "-"))
    assert whole == document


def test_run_takes_scenarios_by_id_and_from_files(tmp_path: Path) -> None:
    made = json.loads(entente("run", "hold", "--scenario", "italy-opening-lepanto", "--repeats", 1, "--json", "-"))
    assert [game["scenario"] for game in made["games"]] == ["italy-opening-lepanto"]
    (tmp_path / "mine.toml").write_text((LIBRARY / "crisis" / "italy-crisis-venice-lost.toml").read_text())
    made = json.loads(entente("run", "hold", "--file", tmp_path, "--repeats", 1, "--json", "-"))
    assert [game["scenario"] for game in made["games"]] == ["italy-crisis-venice-lost"]


def test_tables_fit_a_terminal_of_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    results = run_scenarios(["hold", "loyal:dumbbot"], named("alliance")[:4], 1, 0, ChatPlayers({}))
    print_scores(results, Console(width=80))
    lines = capsys.readouterr().out.splitlines()
    assert any(
        re.search(r"loyal:dumbbot +alliance +4 +0\.\d\d \[0\.\d\d, [01]\.\d\d\] +[+-]0\.\d\d \[", line)
        for line in lines
    )
    assert max(map(len, lines)) <= 80


def test_a_saved_game_becomes_a_scenario_that_can_be_played(tmp_path: Path) -> None:
    game, mine = tmp_path / "game.json", tmp_path / "mine.toml"
    done = CliRunner().invoke(app, ["play", "--default", "greedy", "--until", "1904", "--out", str(game)])
    assert done.exit_code == 0, done.output
    text = entente("from-game", game, "--phase", "s1903m", "--country", "france", "--out", mine)
    assert text.startswith("game-s1903m-france: written to ")
    assert "A " in entente("show", mine)
    scores = json.loads(entente("run", "dumbbot", "--file", mine, "--repeats", 2, "--json", "-"))
    assert {each["country"] for each in scores["games"]} == {"FRANCE"}
