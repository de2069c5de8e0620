from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from services.environments.diplomacy.position import POWERS
from services.reports.run_report.data import RunData, load_run
from services.reports.run_report.games.kept import KeptGame, kept_games
from services.reports.run_report.games.notable import (
    first_solo,
    largest_upset,
    notable_games,
    notable_table,
    worst_collapse,
)
from tests.long_run import long_run
from tests.measured import CHAIRS, DIPLOMACY


def game(name: str, own: Sequence[int], *, update: int = 0, against: str = "dumbbot", others: int = 3) -> KeptGame:
    centers = tuple(dict.fromkeys(POWERS, others) | {"FRANCE": count} for count in own)
    phases = tuple(f"S{1901 + number}M" for number in range(len(own)))
    return KeptGame(Path(f"{name}.json"), "FRANCE", name, against, update, phases, centers)


def test_the_first_solo_is_of_the_fewest_updates_and_phases() -> None:
    games = [game("late", [3, 18], update=50), game("slow", [3, 9, 18], update=20), game("fast", [3, 19], update=20)]
    found = first_solo([*games, game("none", [3, 17])])
    assert found.game == games[2]
    assert found.text == "19 centres in S1902M, after 20 updates"
    assert first_solo([game("none", [3, 17])]).game is None


def test_the_worst_collapse_is_the_largest_fall_from_a_peak() -> None:
    games = [game("up", [3, 9, 12]), game("down", [3, 10, 11, 4, 6]), game("dip", [8, 2, 9])]
    found = worst_collapse(games)
    assert found.game == games[1]
    assert found.text == "from 11 centres in S1903M to 4 in S1904M"
    assert worst_collapse([game("up", [3, 3, 4])]).game is None
    equal = [game("left", [9, 3]), game("nothing", [6, 0])]
    assert worst_collapse(equal).game == equal[1], "of equal falls that to nothing"


def rated(tmp_path: Path, learner: float, bot: float) -> RunData:
    metrics = {"entente_rating{player=learner}": learner, "entente_rating{player=bot/dumbbot}": bot}
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"update": 1, "time": 0, "metrics": metrics}) + "\n")
    (tmp_path / "summary.json").write_text("{}")
    return load_run(tmp_path, DIPLOMACY)


def test_an_upset_is_a_game_that_the_lower_rated_side_wins(tmp_path: Path) -> None:
    weaker = rated(tmp_path, 1000, 1400)
    games = [game("lost", [1], others=5), game("won", [9], others=4), game("level", [3], others=3)]
    found = largest_upset(games, weaker)
    assert found.game == games[1]
    assert found.text == "scored 100% where 9% was to be expected (rated 1000 against 1400)"
    stronger = rated(tmp_path, 1400, 1000)
    assert largest_upset(games, stronger).game == games[0]
    assert largest_upset([games[2]], weaker).game is None
    assert largest_upset([game("unknown", [9], against="elsewhere")], weaker).game is None


def saved(path: Path, own: Sequence[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    phases: list[dict[str, Any]] = [
        {"name": f"S{1901 + number}M", "state": {"centers": {"FRANCE": ["PAR"] * count, "ITALY": ["ROM"]}}}
        for number, count in enumerate(own)
    ]
    path.write_text(json.dumps({"phases": phases}))


def test_games_of_all_evaluations_are_read_and_damaged_ones_left_out(tmp_path: Path) -> None:
    run = long_run(tmp_path / "run", 100)
    saved(run / "games" / "v50-dumbbot" / "FRANCE.json", [3, 18])
    saved(run / "games" / "v100-dumbbot" / "FRANCE.json", [3, 18])
    (run / "games" / "v0-dumbbot").mkdir()
    (run / "games" / "v0-dumbbot" / "FRANCE.json").write_text('{"phases": []}')
    saved(run / "games" / "other-dumbbot" / "FRANCE.json", [3, 18])
    found = kept_games(load_run(run, DIPLOMACY))
    assert [(each.update, each.centers[-1]["FRANCE"], each.centers[0]["TURKEY"]) for each in found] == [
        (50, 18, 0),
        (100, 18, 0),
    ]
    rows = {each.title: each for each in notable_games(load_run(run, DIPLOMACY))}
    assert rows["First solo"].game == found[0]
    text = notable_table(list(rows.values()), lambda kept: f"games/{kept.label}.html")
    assert '<a href="games/v50.html">France against dumbbot, v50</a>' in text
    assert notable_games(load_run(run, CHAIRS)) == []


def test_training_games_are_named_by_update_and_episode(tmp_path: Path) -> None:
    run = long_run(tmp_path / "run", 3)
    path = run / "audit" / "000002.json"
    record = json.loads(path.read_text())
    record["outcomes"] = {
        "centers": [20.0 if n == 3 else 2.0 for n in range(56)],
        "win_rate": [n == 3 for n in range(56)],
    }
    record["outcomes"]["win_rate"] = [float(value) for value in record["outcomes"]["win_rate"]]
    path.write_text(json.dumps(record))
    rows = {each.title: each.text for each in notable_games(load_run(run, DIPLOMACY))}
    assert rows["First solo in training"] == "as Germany in update 2, game b000002/3"
    assert rows["Best game in training"] == "20 centres as Germany in update 2, game b000002/3"


@pytest.mark.parametrize("folder", ["v50-dumbbot"])
def test_games_outside_the_run_are_not_read(tmp_path: Path, folder: str) -> None:
    run = long_run(tmp_path / "run", 50)
    saved(tmp_path / "outside" / "FRANCE.json", [3, 18])
    (run / "games").mkdir()
    (run / "games" / folder).symlink_to(tmp_path / "outside")
    assert kept_games(load_run(run, DIPLOMACY)) == []
