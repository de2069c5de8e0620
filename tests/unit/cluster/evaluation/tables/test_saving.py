"""Games of an evaluation are kept with who played, wherever they are played; one player's decisions are imitated."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from cluster.evaluation.evaluate import diplomacy_request, evaluate
from cluster.evaluation.tables.places import in_processes
from cluster.evaluation.tables.saving import GameFolder
from cluster.evaluation.tables.table import Table
from grpo_core.files import read_json
from opponents.players.chat_players import ChatPlayers
from services.environments.diplomacy.ending import Ending
from services.environments.diplomacy.game_origin import seated_players
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.settings import DiplomacyImitation, GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.environments.seat_player import SeatPlayer

WORLD = Diplomacy(GameSettings())


def kept(folder: Path, processes: int, seed: int = 0) -> dict[str, str]:
    """Play one greedy bot among six DumbBots as every country; the files by name, without the engine's times."""
    request = diplomacy_request(1, Ending(1902), seed=seed, games=GameFolder(folder, ChatPlayers({}), "1902"))
    evaluate(request, ["greedy"], ["dumbbot"], in_processes(processes))
    return {file.name: re.sub(r'"timestamp": [0-9]+', "", file.read_text()) for file in sorted(folder.iterdir())}


def test_every_game_is_kept_alike_in_one_process_and_in_several(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    found = kept(tmp_path / "one", 1)
    assert len(found) == len(POWERS)
    assert found == kept(tmp_path / "two", 2)
    for name in found:
        player, against, other, country = name.split("-")[:4]
        assert (player, against, other) == ("greedy", "against", "dumbbot")
        seated = seated_players(read_json(tmp_path / "one" / name))
        assert seated == {power: "greedy" if power == country else "dumbbot" for power in POWERS}


def test_games_of_another_seed_are_kept_beside_them(tmp_path: Path) -> None:
    kept(tmp_path, 1)
    assert len(kept(tmp_path, 1, seed=1)) == 2 * len(POWERS)


def test_no_two_games_have_one_name() -> None:
    """Players may have the same name in records, and games the same seed."""
    seats = dict.fromkeys(POWERS, 2)
    tables = [
        Table(0, {**seats, "FRANCE": player}, ("FRANCE",), "FRANCE", "", seed) for player in (0, 1) for seed in (7, 8)
    ]
    alike, warmer = SeatPlayer("demo/checkpoints/9", "checkpoint"), SeatPlayer("a", "checkpoint", temperature=0.5)
    names = []
    for ending in ("1905", "1908"):
        folder = GameFolder(Path("games"), ChatPlayers({}), ending)
        for anchor in (SeatPlayer("a", "checkpoint"), warmer):
            names += [each.saved.path for each in folder.saved(tables, [alike, alike, anchor]) if each.saved]
    assert len(names) == len(set(names)) == 16


def test_only_decisions_of_the_named_players_are_imitated(tmp_path: Path) -> None:
    kept(tmp_path, 1)
    settings = DiplomacyImitation(saved_games=str(tmp_path), saved_players=("greedy",))
    for file in WORLD.saved_games(settings):
        country = file.name.split("-")[3]
        all_seats = Counter(each.seat for each in WORLD.saved_demonstrations(DiplomacyImitation(), file))
        named = Counter(each.seat for each in WORLD.saved_demonstrations(settings, file))
        assert set(all_seats) == set(POWERS)
        assert named == {country: all_seats[country]}


def test_a_player_of_none_of_the_games_is_refused_with_those_who_played(tmp_path: Path) -> None:
    kept(tmp_path, 1)
    settings = DiplomacyImitation(saved_games=str(tmp_path), saved_players=("greedy", "lookahed"))
    with pytest.raises(ValueError, match="lookahed played none of these games; their players are dumbbot, greedy"):
        WORLD.saved_games(settings)


@pytest.mark.parametrize("origin", [None, "greedy", {"seats": ["greedy"]}, {"seats": {"FRANCE": {"player": 1}}}])
def test_a_game_that_does_not_say_who_played_has_no_named_players(origin: object) -> None:
    assert seated_players({"entente": origin}) == {}
