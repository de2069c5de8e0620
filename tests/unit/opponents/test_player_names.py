"""Names of players that look ahead, and of policies alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.configs.loader import load_config
from cluster.configs.shareable import shareable
from cluster.diagnostics.doctor import _slow_opponents
from opponents.champion.shipped import as_folder, name_of_path, shipped_champion, shown_path
from opponents.player_names import player_name, policy_alone, with_saved
from opponents.population.population import Population
from opponents.population.saved_players import check_saved_player, saved_player
from opponents.settings import unknown_player
from tests.unit.opponents.population_cases import make_run


@pytest.mark.parametrize(
    ("name", "saved", "looks_ahead"),
    [
        ("champion", "champion", True),
        ("policy:champion", "champion", False),
        ("lookahead:champion", "champion", True),
        ("./champion", "./champion", False),
        ("runs/demo", "runs/demo", False),
        ("lookahead:runs/demo", "runs/demo", True),
        ("lookahead:runs/demo:policy/v20", "runs/demo:policy/v20", True),
        ("lookahead", "lookahead", False),  # the bot
        ("./lookahead:x", "./lookahead:x", False),
        ("remote:gpt", "remote:gpt", False),
    ],
)
def test_a_name_has_a_policy_and_says_whether_it_looks_ahead(name: str, saved: str, looks_ahead: bool) -> None:
    assert player_name(name) == (saved, looks_ahead, False)
    assert player_name(f"muted:{name}") == (saved, looks_ahead, True)
    for given in (name, f"muted:{name}"):
        assert with_saved(given, saved) == given
        assert player_name(with_saved(given, "elsewhere")).saved == "elsewhere"


def test_a_member_that_stays_in_its_folder_keeps_how_it_plays(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 1)
    folder = str(run / "checkpoints" / "4")
    plain, ahead = saved_player("a", str(run)), saved_player("b", f"lookahead:{run}")
    assert (plain.source, ahead.source) == (folder, f"lookahead:{folder}")
    assert plain.checksum == ahead.checksum
    alone = saved_player("c", "policy:champion")
    assert (alone.source, alone.checksum) == ("policy:champion", shipped_champion().checksum)
    population = Population.load(run / "population.json")
    for name, player in (("b", ahead), ("c", alone)):
        member = population.add_saved_player(name, player)
        assert check_saved_player(member) == player.source


def test_what_is_shared_of_a_config_has_no_folder_before_the_last() -> None:
    players = {"a": "lookahead:/home/me/runs/mine", "b": "policy:champion", "c": "/home/me/runs/champion"}
    chosen = [f"opponents.players.{name}={path}" for name, path in players.items()]
    shared = shareable(load_config("smoke", chosen))["opponents"]["players"]
    assert shared == {"a": "lookahead:mine", "b": "policy:champion", "c": "./champion"}


def test_a_folders_name_never_reads_as_how_a_policy_plays() -> None:
    for name in ("champion", "policy:champion", "lookahead:x"):
        assert as_folder(name) == f"./{name}"
        assert shown_path(f"/models/{name}") == f"./{name}"
        assert name_of_path(Path(name)) == f"./{name}"
    assert as_folder("mine") == "mine"


def test_the_policy_alone_of_a_player_that_looks_ahead() -> None:
    assert policy_alone("champion") == policy_alone("lookahead:champion") == "policy:champion"
    assert policy_alone("lookahead:runs/demo") == "policy:runs/demo"
    assert policy_alone("runs/demo") == "runs/demo"


def test_doctor_warns_of_opponents_that_look_ahead() -> None:
    def found(*chosen: str) -> list[str]:
        findings = _slow_opponents(load_config("smoke", list(chosen)))
        return [finding.text.split(":")[0] for finding in findings]

    assert found() == found('evaluation.against=["policy:champion"]') == []
    assert found('evaluation.against=["champion", "random"]') == ["champion"]
    assert found("opponents.members={champion=1.0}") == ["champion"]
    slow = ['opponents.players={a="lookahead:runs/a"}', 'opponents.members={"player:a"=1.0, random=1.0}']
    assert found(*slow) == ["lookahead"]
    assert found("opponents.players={a='policy:champion'}", "opponents.members={'player:a'=1.0, random=1.0}") == []


def test_the_champion_is_no_player_of_the_configuration() -> None:
    assert (
        unknown_player("champion", ()) == "the player that comes with the package is called champion, without player:"
    )
    assert "name its folder in [opponents.players]" in unknown_player("victim", ())
