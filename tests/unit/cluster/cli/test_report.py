"""``entente report`` of a saved game prints who played; ``entente play`` writes it."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from cluster.cli.app import app
from cluster.runs.provenance import commit
from opponents.population.member import package_version, release_checksum


def entente(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.output


def test_a_played_game_is_reported_with_its_players(tmp_path: Path) -> None:
    game = tmp_path / "game.json"
    entente("play", "--seat", "FRANCE=hold", "--default", "random", "--until", "1901", "--seed", "5", "--out", game)
    said = entente("report", game)
    release = f"bot, release {package_version()}"
    assert f"FRANCE   hold    {release}  SHA-256 {release_checksum('hold')[:12]}" in said
    assert f"TURKEY   random  {release}  SHA-256 {release_checksum('random')[:12]}" in said
    assert f"seed 5, to the end of 1901, commit {commit()}, Entente {package_version()}" in said
    assert f"written to {game.with_suffix('.html')}" in said.replace("\n", " ")


def test_what_a_hostile_game_says_of_its_players_is_one_printable_line(tmp_path: Path) -> None:
    game = tmp_path / "game.json"
    entente("play", "--default", "hold", "--until", "1901", "--out", game)
    document = json.loads(game.read_text())
    document["entente"] = {"schema": "\x1b[2J" * 10_000}
    game.write_text(json.dumps(document))
    first, *_ = entente("report", game).split("\n")
    assert first.startswith("The record of who played is damaged: it has schema")
    assert len(first) <= 500
    assert first.isprintable()
