"""Evaluation games and rows of any world: the same games for all candidates, each role with the same weight."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import pytest

from grpo_core.statistics.means import stratified_mean
from grpo_core.statistics.rates import clustered_rate, stratified_rate
from grpo_core.types import Measure
from services.environments.evaluation import EvaluationResult, stratified_row
from services.environments.settings import EvaluationSettings, GamesPerRole, NoSettings
from tests.unit.services.environments.tiny_world import SEATS, Tiny

WORLD = Tiny(NoSettings())


def result(role: str, number: int, points: float, second: float) -> EvaluationResult:
    return EvaluationResult(role, number, {"points": points, "second": second, "unmeasured": 9.0})


def results() -> list[EvaluationResult]:
    """More games as A than as the others, as when some were lost."""
    counts = {"A": 30, "B": 10, "C": 4}
    return [result(role, n, float(n % 3), float(n % 4 == 0)) for role, count in counts.items() for n in range(count)]


def test_all_roles_play_the_same_number_of_games_from_starts_of_their_own() -> None:
    games = WORLD.evaluation_games(GamesPerRole(games_per_role=5), "high", 3)
    assert Counter(game.role for game in games) == dict.fromkeys(SEATS, 5)
    assert [game.role for game in games[:3]] == list(SEATS), "roles take turns"
    assert {game.against for game in games} == {"high"}
    assert len({game.seed for game in games}) == 15
    assert {game.start for game in games} == {"red", "blue"}
    assert all(game.temperature is None and game.save_to is None for game in games)


def test_games_follow_from_seed_and_anchor_and_more_of_them_begin_alike() -> None:
    games = WORLD.evaluation_games(GamesPerRole(games_per_role=2), "high", 3)
    assert games == Tiny(NoSettings()).evaluation_games(GamesPerRole(games_per_role=2), "high", 3)
    assert WORLD.evaluation_games(GamesPerRole(games_per_role=4), "high", 3)[: len(games)] == games
    seeds = {game.seed for game in games}
    for against, seed in (("random", 3), ("high", 4)):
        others = WORLD.evaluation_games(GamesPerRole(games_per_role=2), against, seed)
        assert seeds.isdisjoint(game.seed for game in others)


def test_a_row_is_stratified_by_role() -> None:
    row = WORLD.summarize(GamesPerRole(), results())
    assert row["games"] == 44
    by_role: dict[str, list[EvaluationResult]] = {}
    for each in results():
        by_role.setdefault(each.role, []).append(each)
    points = stratified_mean({role: [r.outcome["points"] for r in own] for role, own in by_role.items()}, within=(0, 2))
    second = stratified_rate({role: [r.outcome["second"] == 1 for r in own] for role, own in by_role.items()})
    assert points is not None
    assert second is not None
    assert (row["mean_points"], row["mean_points_ci95"]) == (points.mean, list(points.interval or ()))
    assert (row["second_rate"], row["second_rate_ci95"]) == (second.mean, list(second.interval or ()))
    means = [sum(r.outcome["points"] for r in own) / len(own) for own in by_role.values()]
    assert row["mean_points"] == pytest.approx(sum(means) / 3)
    assert "unmeasured" not in json.dumps(row)


def test_a_row_has_the_same_figures_for_each_role() -> None:
    row = WORLD.summarize(GamesPerRole(), results())
    assert list(row["by_chair"]) == list(SEATS)
    for role, own in row["by_chair"].items():
        played = [each for each in results() if each.role == role]
        assert own["games"] == len(played)
        assert own["mean_points"] == pytest.approx(sum(r.outcome["points"] for r in played) / len(played))
        assert own.keys() == row.keys() - {"by_chair"}
    json.dumps(row, allow_nan=False)


def test_roles_without_games_are_left_out_and_no_games_give_no_figures() -> None:
    row = WORLD.summarize(GamesPerRole(), [result("B", 0, 2.0, 1.0)])
    assert list(row["by_chair"]) == ["B"]
    assert (row["games"], row["mean_points"]) == (1, 2.0)
    empty = stratified_row({}, WORLD.measures)
    assert empty == {
        "games": 0,
        "mean_points": None,
        "mean_points_ci95": None,
        "second_rate": None,
        "second_rate_ci95": None,
    }


def test_a_share_of_things_that_games_have_in_different_numbers_is_one_of_all_things() -> None:
    told = Measure("told", "told", "Told", "promises", "mean", high=math.inf)
    kept = Measure("kept", "kept", "Kept", "share kept", "mean", weight="told")
    games = {
        role: [EvaluationResult(role, n, {"told": count, "kept": share}) for n, (count, share) in enumerate(own)]
        for role, own in {"A": [(8.0, 0.25), (0.0, 1.0)], "B": [(2.0, 1.0)], "C": [(0.0, 1.0)]}.items()
    }
    row = stratified_row(games, (told, kept))
    assert row["kept"] == pytest.approx(0.4)
    expected = clustered_rate([[1.0] * 2 + [0.0] * 6, [1.0] * 2])
    assert expected is not None
    assert row["kept_ci95"] == pytest.approx(list(expected.interval or ()))
    silent = stratified_row({"A": games["A"][1:], "C": games["C"]}, (told, kept))
    assert (silent["told"], silent["kept"], silent["kept_ci95"]) == (0.0, None, None)


def test_an_interval_stays_in_the_measure_s_range() -> None:
    row: dict[str, Any] = WORLD.summarize(
        GamesPerRole(), [result(role, n, 2.0, 0.0) for role in SEATS for n in range(9)]
    )
    low, high = row["mean_points_ci95"]
    assert low <= 2.0 == high
    low, high = row["second_rate_ci95"]
    assert 0 == low <= high < 1


def test_settings_without_a_number_of_games_say_so() -> None:
    with pytest.raises(NotImplementedError):
        _ = EvaluationSettings().role_games
    assert GamesPerRole(games_per_role=7).role_games == 7
