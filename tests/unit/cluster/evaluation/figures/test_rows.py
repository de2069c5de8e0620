"""Rows of players that share tables: what each got in its own seats, every role with the same weight."""

from __future__ import annotations

from statistics import fmean

import pytest

from cluster.evaluation.figures.rows import mixed_estimate, mixed_row, mixed_seats, paired_estimate, results_by_role
from cluster.evaluation.tables.designs import mixed_tables
from cluster.evaluation.tables.table import Played
from services.environments.diplomacy.measures.definitions import EVALUATED
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.settings import DiplomacyEvaluation, GameSettings
from services.environments.diplomacy.world import Diplomacy

WORLD = Diplomacy(GameSettings()).as_measured(DiplomacyEvaluation(until_year=1905))
PLAYERS = 3
CENTERS = next(measure for measure in EVALUATED if measure.row_name == "mean_centers")


def played() -> list[Played]:
    """Tables at which player number n gets n centres, two more as France, and one more in every second cycle."""
    found = []
    for table in mixed_tables(WORLD, PLAYERS, 4, seed=3):
        outcomes = {}
        for role, player in table.seats.items():
            centers = float(player + 2 * (role == "FRANCE") + table.number % 2)
            outcomes[role] = {measure.outcome: 0.0 for measure in EVALUATED} | {"centers": centers, "survived": 1.0}
        found.append(Played(table, outcomes, dict.fromkeys(POWERS, "")))
    return found


@pytest.mark.parametrize("player", range(PLAYERS))
def test_a_row_has_a_players_own_seats(player: int) -> None:
    games = played()
    row = mixed_row(WORLD, games, player)
    own = {role: [seat.value for seat in mixed_seats(games, player, CENTERS, (role,))] for role in POWERS}
    assert row["mean_centers"] == pytest.approx(fmean(fmean(values) for values in own.values()))
    for role in POWERS:
        assert row["by_country"][role]["mean_centers"] == pytest.approx(fmean(own[role]))
    assert row["games"] == len(games)
    assert row["survival_rate"] == 1.0
    assert row["survival_rate_ci95"][1] == 1.0
    low, high = row["mean_centers_ci95"]
    assert low < row["mean_centers"] < high
    results = results_by_role(WORLD, games, player)
    assert {role: len(found) for role, found in results.items()} == {role: len(values) for role, values in own.items()}


def test_shares_of_counted_things_are_of_all_seats_together() -> None:
    """Player 2 keeps 1 of 4 promises in each seat, player 0 keeps both of its two in one game, and else gives none."""
    world = Diplomacy(GameSettings(press_rounds=1)).as_measured(DiplomacyEvaluation(until_year=1905))
    honesty = next(measure for measure in world.measures if measure.name == "honesty")
    games = []
    for each in played():
        outcomes = {}
        for role, player in each.table.seats.items():
            given, share = (4.0, 0.25) if player == 2 else (2.0, 1.0) if each.table.number == 0 else (0.0, 1.0)
            outcomes[role] = {measure.outcome: 0.0 for measure in world.measures} | {
                "promises": given,
                "honesty": share,
            }
        games.append(Played(each.table, outcomes, each.notes))
    rows = [mixed_row(world, games, player) for player in (0, 2)]
    assert [row["honesty"] for row in rows] == [1.0, 0.25]
    assert rows[1]["honesty_ci95"][0] < 0.25 < rows[1]["honesty_ci95"][1]
    estimate = mixed_estimate(world, games, honesty, 0, 2)
    assert estimate is not None
    assert estimate.mean == -0.75
    own = [results_by_role(world, games, player) for player in (0, 2)]
    paired = paired_estimate(honesty, *own)
    assert paired is not None
    assert paired.mean == -0.75


def test_a_difference_is_that_of_the_rows() -> None:
    games = played()
    estimate = mixed_estimate(WORLD, games, CENTERS, 0, 2)
    assert estimate is not None
    apart = mixed_row(WORLD, games, 2)["mean_centers"] - mixed_row(WORLD, games, 0)["mean_centers"]
    assert estimate.mean == pytest.approx(apart)
