"""Names of players that look ahead, and of policies alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.configs.loader import load_config
from cluster.configs.shareable import shareable
from opponents.champion.shipped import shipped_champion
from opponents.player_names import player_name, with_saved
from opponents.population.population import Population
from opponents.population.saved_players import check_saved_player, saved_player
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
    assert player_name(name) == (saved, looks_ahead)
    assert with_saved(name, saved) == name
    assert player_name(with_saved(name, "elsewhere")).saved == "elsewhere"


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
