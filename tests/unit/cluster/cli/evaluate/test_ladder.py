"""``entente ladder``: its table, files and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from cluster.cli.app import app
from grpo_core.errors import EntenteError

SHORT = ("--games-per-country", 1, "--until", 1902, "--processes", 1)


def entente(*arguments: object) -> Result:
    result = CliRunner().invoke(app, ["ladder", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_the_table_has_80_columns_and_says_which_neighbours_are_alike(tmp_path: Path) -> None:
    said = entente("hold", "random", *SHORT, "--csv", tmp_path / "ladder.csv").stdout
    table = [line for line in said.splitlines() if not line.startswith("written to")]
    assert max(map(len, table)) <= 80
    assert "against six dumbbot, 7 games each, 7 mixed tables, to 1902" in said
    for heading in ("rating", "solos", "most SC", "leads", "split", "survives", "squares", "centres"):
        assert heading in said
    assert "74.8%" in said
    assert "Glick, not" in said
    assert "Not comparable with these games: a simplified DumbBot" in " ".join(said.split())
    assert "hold and random" in said or "random and hold" in said or " is above " in said
    assert len((tmp_path / "ladder.csv").read_text().splitlines()) == 1 + 2 + 2


def test_json_alone_goes_to_the_standard_output_and_repeats_the_command() -> None:
    result = entente("hold", *SHORT, "--seed", 4, "--json", "-")
    document = json.loads(result.stdout)
    assert document["command"] == (
        "entente ladder hold --against dumbbot --games-per-country 1 --mixed-games 1 --until 1902 --seed 4"
    )
    assert [row["checkpoint"] for row in document["ladder"]] == ["hold"]
    assert document["ladder"][0]["rating"] is None
    assert "against six dumbbot, 7 games each, to 1902" in result.stderr


def test_the_same_command_gives_the_same_figures(tmp_path: Path) -> None:
    documents = []
    for name in ("one.json", "two.json"):
        entente("hold", "random", *SHORT, "--json", tmp_path / name)
        documents.append(json.loads((tmp_path / name).read_text()))
    assert documents[0] == documents[1]


def test_without_players_the_four_bots_are_ranked(tmp_path: Path) -> None:
    html = tmp_path / "ladder.html"
    entente("--games-per-country", 1, "--mixed-games", 0, "--until", 1901, "--processes", 1, "--html", html)
    text = html.read_text()
    for name in ("hold", "random", "greedy", "dumbbot"):
        assert f'<th scope="row">{name}' in text
    assert "Sum of squares" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nothing-here",), "'nothing-here' is neither a bot"),
        (("--against", "random,greedy"), "--against names the one player that fills the six other seats, not 2"),
        (("--against", ","), "--against names the one player that fills the six other seats, not 0"),
        (("--until", "1900"), "--until: '1900' is neither a year"),
        (("a", "b", "c", "d", "e", "f", "g", "h"), "8 players do not fit at a table of 7"),
        (("--html", "nowhere/ladder.html"), "there is no folder nowhere"),
        (("--csv", "nowhere/ladder.csv"), "there is no folder nowhere"),
        (("remote:x",), "no remote is called 'x'"),
    ],
)
def test_what_cannot_be_ranked_is_refused_before_a_game(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(EntenteError, match=said):
        CliRunner().invoke(app, ["ladder", *words], catch_exceptions=False)
