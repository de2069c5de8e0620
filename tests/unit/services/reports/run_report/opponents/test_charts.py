from __future__ import annotations

from pathlib import Path

import pytest

from services.reports.page import ReportError
from services.reports.run_report.data import load_run
from services.reports.run_report.opponents.charts import MOST_PLAYERS, drawn_seats, opponent_charts
from services.reports.run_report.schema import Lineup
from tests.long_run import long_run
from tests.measured import DIPLOMACY, TOPICS


def test_seats_are_shares_of_each_opponent_by_update() -> None:
    lineups = [
        Lineup(0, {"ITALY": "bot/random", "RUSSIA": "bot/random", "TURKEY": "bot/greedy"}, 0),
        Lineup(1, {"ITALY": "policy/v1", "RUSSIA": "policy/v2", "TURKEY": "bot/random"}, 5),
        Lineup(2, {"ITALY": "bot/random", "RUSSIA": "policy/v2", "TURKEY": "bot/random"}, 5),
        Lineup(3, {}, 6),
    ]
    assert drawn_seats(lineups) == {
        "bot/random": {0: pytest.approx(2 / 3), 5: 0.5},
        "snapshots of itself": {0: 0, 5: 0.5},
        "bot/greedy": {0: pytest.approx(1 / 3), 5: 0},
    }
    assert drawn_seats([]) == {}


def test_many_updates_and_opponents_are_put_together() -> None:
    lineups = [Lineup(n, {"ITALY": f"bot/{n % 20}"}, n) for n in range(1000)]
    found = drawn_seats(lineups)
    assert len(found) == MOST_PLAYERS + 1
    assert len(found["others"]) == 100
    for version in found["others"]:
        assert sum(shares[version] for shares in found.values()) == pytest.approx(1)
    assert max(found["others"]) == 999


def test_ratings_show_the_learner_first_and_its_interval(tmp_path: Path) -> None:
    run = load_run(long_run(tmp_path / "run", 4), DIPLOMACY)
    ratings = opponent_charts(run)[0]
    low, high, learner, *others = ratings["traces"]
    assert (learner["name"], [trace["name"] for trace in others]) == ("learner", ["bot/dumbbot", "policy/v0"])
    assert [top - bottom for top, bottom in zip(high["y"], low["y"], strict=True)] == pytest.approx([2 * 1.96 * 20] * 4)
    assert opponent_charts(load_run(run.folder, TOPICS)) == []


def test_a_torn_line_of_line_ups_is_left_out_and_a_damaged_one_named(tmp_path: Path) -> None:
    path = long_run(tmp_path / "run", 2) / "lineups.jsonl"
    whole = path.read_text()
    path.write_text(whole + '{"index": 14, "mem')
    assert len(load_run(path.parent, DIPLOMACY).lineups) == 14
    path.write_text(whole + '{"index": 0, "members": {"ITALY": "bot/hold"}, "version": 1}\n')
    assert load_run(path.parent, DIPLOMACY).lineups[0].members == {"ITALY": "bot/hold"}
    path.write_text('{"index": "x"}\n' + whole)
    with pytest.raises(ReportError, match=r"lineups\.jsonl line 1 is damaged"):
        load_run(path.parent, DIPLOMACY)
