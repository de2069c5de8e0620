"""The same games come out alike wherever they are played, and failures end in one line."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from cluster.errors import RunError
from cluster.evaluation.tables import places
from cluster.evaluation.tables.designs import mixed_tables
from cluster.evaluation.tables.places import Open, in_processes, processes_for, this_process, usable_cores
from cluster.evaluation.tables.table import Played, PlayerSpec
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.settings import DiplomacyEvaluation, GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Decision, Policy, View

SETTINGS = DiplomacyEvaluation(games_per_country=1, until_year=1902)
WORLD = Diplomacy(GameSettings()).as_measured(SETTINGS)
BOTS = [PlayerSpec("dumbbot"), PlayerSpec("random")]
TABLES = mixed_tables(WORLD, 2, 3, seed=1)


class Failing:
    """A player whose orders cannot be computed."""

    async def act(self, view: View, seat: str, seed: int) -> Decision:
        raise RunError("this player has no idea")


class Dying:
    """A player that takes its process with it."""

    async def act(self, view: View, seat: str, seed: int) -> Decision:
        os._exit(3)


def play(open_place: Open, player: str | Policy) -> None:
    with open_place(WORLD, [PlayerSpec(player), BOTS[1]]) as place:
        place.play(TABLES, lambda _: None)


def by_seed(played: list[Played]) -> list[Played]:
    return sorted(played, key=lambda each: each.table.seed)


def test_processes_play_the_same_games() -> None:
    here: list[Played] = []
    there: list[Played] = []
    with this_process(WORLD, BOTS) as place:
        place.play(TABLES, here.append)
    with in_processes(2)(WORLD, BOTS) as place:
        place.play(TABLES[:4], there.append)
        place.play(TABLES[4:], there.append)  # the players stay open
    assert by_seed(here) == by_seed(there)
    assert len(here) == len(TABLES)
    assert all(set(each.outcomes) == set(POWERS) for each in here)


def test_a_failing_player_ends_the_games_with_its_own_message() -> None:
    for count in (1, 2):
        with pytest.raises(RunError, match="this player has no idea"):
            play(in_processes(count), Failing())


def test_a_dead_process_is_said_to_be_dead() -> None:
    with pytest.raises(RunError, match="a process that plays evaluation games died"):
        play(in_processes(2), Dying())


def test_a_process_that_dies_between_two_calls_is_said_to_be_dead() -> None:
    with in_processes(2)(WORLD, BOTS) as place:
        place.play(TABLES[:4], lambda _: None)
        for process in multiprocessing.active_children():
            process.kill()
            process.join(10)
        with pytest.raises(RunError, match="a process that plays evaluation games died"):
            place.play(TABLES, lambda _: None)


def test_players_that_are_open_have_the_time_of_a_game(monkeypatch: pytest.MonkeyPatch) -> None:
    with in_processes(2)(WORLD, BOTS) as place:
        place.play(TABLES[:2], lambda _: None)
        monkeypatch.setattr(places, "OPENING_TIMEOUT_S", 0.0)
        place.play(TABLES, lambda _: None)


def test_processes_that_do_not_answer_are_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "OPENING_TIMEOUT_S", 0.0)
    with pytest.raises(RunError, match="no process that plays evaluation games was ready within 0 s"):
        play(in_processes(2), "dumbbot")


def test_bots_play_on_every_core_and_models_where_memory_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert processes_for(["dumbbot", "random"]) == usable_cores()
    monkeypatch.setattr(places, "usable_cores", lambda: 16)
    model = tmp_path / "model.safetensors"
    model.write_bytes(b"")
    os.truncate(model, 1 << 30)
    monkeypatch.setattr(places, "available_bytes", lambda: 24 << 30)
    assert processes_for([str(tmp_path)]) == 3  # 0.6 GiB and three times the weights each, in half of the memory
    monkeypatch.setattr(places, "available_bytes", lambda: 1 << 30)
    assert processes_for([str(tmp_path)]) == 1
    (tmp_path / "population.json").write_text("{}")
    assert processes_for([f"{tmp_path}:policy/v1"]) == 1
