"""Rows of evaluations as lines of text and as a table, for any world."""

from __future__ import annotations

from typing import Any

from cluster.runs.counters import role_episodes
from cluster.runs.evaluation_rows import describe, evaluation_table, rate_text
from services.environments.diplomacy.world import Diplomacy
from tests.measured import CHAIRS, DIPLOMACY, TOPICS

CHIPS: dict[str, Any] = {"games": 30, "mean_chips": -0.514, "mean_chips_ci95": [-1.0, 0.25], "showdown_rate": 0.5}
CHIPS |= {"showdown_rate_ci95": [0.4, 0.6], "bet_rate": None, "bet_rate_ci95": None, "regret": 0.1, "regret_ci95": None}


def test_a_worlds_measures_are_those_of_its_runs() -> None:
    assert Diplomacy(Diplomacy.game_settings()).measured == DIPLOMACY


def test_a_line_says_the_main_measure_first_and_facts_about_the_games_last() -> None:
    assert describe({**CHIPS, "hands": 9}, CHAIRS, ("hands",)) == (
        "-0.51 chips [-1.00, 0.25], bets –, shown 50% [40,60] (30 games, hands 9)"
    )
    solved = {"games": 40, "solved": 0.625, "solved_ci95": [0.5, 0.75]}
    assert describe(solved, TOPICS, ()) == "solved 62% [50,75] (40 games)"
    assert rate_text(solved, "solved") == "62% [50,75]"


def test_the_table_has_all_roles_and_each() -> None:
    row = {"label": "trained", "checkpoint": "checkpoints/6", "against": "random", "hands": 9, **CHIPS}
    columns, rows = evaluation_table([{**row, "by_chair": {"A": CHIPS}}], CHAIRS, ("hands",))
    assert columns[:6] == ["label", "checkpoint", "against", "hands", "chair", "games"]
    assert columns[6:9] == ["mean_chips", "mean_chips_low", "mean_chips_high"]
    assert columns[-3:] == ["regret", "regret_low", "regret_high"]
    assert [dict(zip(columns, cells, strict=True))["chair"] for cells in rows] == ["all", "A"]
    assert dict(zip(columns, rows[1], strict=True))["mean_chips_low"] == -1.0
    diplomacys, _ = evaluation_table([], DIPLOMACY, ("until_year",))
    names = ("mean_centers", "win_rate", "top_rate", "survival_rate", "sum_of_squares")
    assert diplomacys == [
        *("label", "checkpoint", "against", "until_year", "country", "games"),
        *(f"{name}{end}" for name in names for end in ("", "_low", "_high")),
    ]


def test_every_role_has_a_counter_of_its_episodes() -> None:
    assert role_episodes(CHAIRS) == {chair: f"entente_chair_episodes_total{{chair={chair}}}" for chair in CHAIRS.roles}
