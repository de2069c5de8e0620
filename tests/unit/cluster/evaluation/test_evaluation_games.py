"""Rows of evaluations: means and rates, their intervals by country, and their text."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.evaluation.evaluation_games import play_evaluation_game, saved_first
from cluster.evaluation.records.game_origins import describe_bot, describe_learner
from cluster.runs.evaluation_rows import describe
from grpo_core.statistics.means import stratified_mean
from grpo_core.statistics.rates import stratified_rate, wilson_score
from grpo_core.types import PolicyVersion
from opponents.population.member import package_version
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game_origin import ORIGIN_KEY
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.settings import DiplomacyEvaluation, GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.environments.evaluation import EvaluationGame
from tests.diplomacy_rows import result, row
from tests.measured import DIPLOMACY

PLAYED = Diplomacy(GameSettings(until_year=1901))
RATES = ("win_rate", "top_rate", "survival_rate")


def row_of(games_per_country: int) -> dict[str, Any]:
    """France always leads and wins every second game; the others survive, in every second game with a tie."""
    results = [
        result(power, 20 if power == "FRANCE" else 4, win=power == "FRANCE" and even, top=power == "FRANCE" or even)
        for number in range(games_per_country)
        for power in POWERS
        for even in [number % 2 == 0]
    ]
    return row(results, checkpoint="c", against="random", until_year=1905)


def games_of(games_per_country: int, seed: int = 7) -> list[EvaluationGame]:
    settings = DiplomacyEvaluation(games_per_country=games_per_country, until_year=1901)
    return PLAYED.evaluation_games(settings, "random", seed)


def test_an_evaluation_row_has_an_interval_for_every_rate() -> None:
    made = row_of(10)
    for name in RATES:
        low, high = made[f"{name}_ci95"]
        assert 0 <= low <= made[name] <= high <= 1
        for cell in made["by_country"].values():
            assert cell[f"{name}_ci95"] is not None
    even = [number % 2 == 0 for number in range(10)]
    wins = {power: even if power == "FRANCE" else [False] * 10 for power in POWERS}
    estimate = stratified_rate(wins)
    assert estimate is not None
    assert made["win_rate"] == pytest.approx(1 / 14)
    assert made["win_rate_ci95"] == list(estimate.interval or ())
    centers = stratified_mean({power: [20.0 if power == "FRANCE" else 4.0] * 10 for power in POWERS})
    assert centers is not None
    assert made["mean_centers_ci95"] == list(centers.interval or ())


def test_the_interval_of_one_countrys_rate_is_wilsons() -> None:
    cell = row_of(1)["by_country"]["FRANCE"]
    assert cell["win_rate_ci95"] == pytest.approx(list(wilson_score(1.0, 1)))
    assert cell["mean_centers_ci95"] is None


def test_ties_count_as_leads() -> None:
    assert row_of(10)["by_country"]["ITALY"]["top_rate"] == 0.5


@pytest.mark.parametrize("games_per_country", [1, 10])
def test_the_line_shows_intervals(games_per_country: int) -> None:
    made = row_of(games_per_country)
    low, high = made["top_rate_ci95"]
    leads = f"{made['top_rate']:.0%} [{100 * low:.0f},{100 * high:.0f}]"
    line = describe(made, DIPLOMACY, ("until_year",))
    assert f"leads {leads}" in line
    assert line.endswith(f"({7 * games_per_country} games to 1905)")


def test_evaluation_rows_weigh_countries_equally_and_have_intervals() -> None:
    results = [result(power, centers, squares=0.2) for power in POWERS for centers in (4, 6)]
    made = row(results, checkpoint="checkpoints/0", against="random", until_year=1905)
    assert made["mean_centers"] == pytest.approx(5.0)
    assert made["games"] == 14
    low, high = made["mean_centers_ci95"]
    assert low < 5.0 < high
    assert set(made["by_country"]) == set(POWERS)


@given(st.lists(st.tuples(st.sampled_from(POWERS), st.sampled_from([0, 1, 17, 34])), min_size=1, max_size=30))
def test_no_interval_of_a_row_leaves_the_possible_range(games: list[tuple[str, int]]) -> None:
    results = [
        result(power, centers, win=centers > 17, top=centers > 10, survived=centers > 0, squares=float(centers > 17))
        for power, centers in games
    ]
    made = row(results, checkpoint="c", against="random", until_year=1905)
    for cell in (made, *made["by_country"].values()):
        for name, most in (("mean_centers", 34), ("sum_of_squares", 1), *((rate, 1) for rate in RATES)):
            interval = cell[f"{name}_ci95"]
            assert interval is None or 0 <= interval[0] <= interval[1] <= most


def test_every_candidate_plays_the_same_games() -> None:
    games = games_of(2)
    assert games == games_of(2)
    assert len({game.seed for game in games}) == 14
    played = asyncio.run(play_evaluation_game(PLAYED, games[0], make_bot("hold"), make_bot("random")))
    assert played.role == games[0].role
    assert 0 <= played.outcome["centers"] <= 17


def test_a_saved_evaluation_game_says_who_played(tmp_path: Path) -> None:
    [game, *_] = saved_first(games_of(1), tmp_path, "af03")
    learner = describe_learner("demo", PolicyVersion(3, "0f"), "free", 0.5)
    described = learner, describe_bot("random")
    asyncio.run(play_evaluation_game(PLAYED, game, make_bot("hold"), make_bot("random"), described))
    record = json.loads((tmp_path / f"{game.role}.json").read_text())[ORIGIN_KEY]
    assert record["seats"] == {power: asdict(described[power != game.role]) for power in POWERS}
    assert record["seats"][game.role] == {
        "player": "demo/checkpoints/3", "kind": "learner", "version": 3, "checksum": "0f", "decoding": "free",
        "temperature": 0.5,
    }  # fmt: skip
    assert (record["seed"], record["until_year"], record["commit"]) == (game.seed, 1901, "af03")
    assert record["package_version"] == package_version()
