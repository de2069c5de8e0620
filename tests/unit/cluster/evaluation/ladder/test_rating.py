"""Ratings from mixed tables: the order of places, the bot that fixes the scale, and a scale without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest

from cluster.evaluation.ladder.rating import Rated, rate_tables
from cluster.evaluation.tables.designs import mixed_tables
from cluster.evaluation.tables.table import Played
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.settings import DiplomacyEvaluation, GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Standing

WORLD = Diplomacy(GameSettings()).as_measured(DiplomacyEvaluation(until_year=1905))


def played(players: int, rounds: int = 4) -> list[Played]:
    """Tables at which players with lower numbers finish above the others."""
    found = []
    for table in mixed_tables(WORLD, players, rounds, seed=1):
        places = tuple(
            tuple(role for role in POWERS if table.seats[role] == player)
            for player in sorted(set(table.seats.values()))
        )
        shares = dict.fromkeys(POWERS, 1 / 7)
        found.append(Played(table, {}, {}, Standing(shares, places)))
    return found


def rated(names: Sequence[str]) -> Rated:
    return rate_tables(WORLD, names, played(len(names)))


def test_better_places_make_higher_ratings_with_intervals() -> None:
    found = rated(("runs/best", "dumbbot", "random"))
    best, middle, last = found.ratings
    assert best.mu > middle.mu > last.mu
    assert best.interval[0] < best.mu < best.interval[1]
    assert best.games == middle.games == 14


def test_random_fixes_the_scale_at_1000_and_other_bots_are_rated_anew() -> None:
    found = rated(("dumbbot", "greedy", "random"))  # the greedy bot is better than a DumbBot, but not here
    assert found.fixed == "random"
    dumbbot, greedy, random = found.ratings
    assert (round(random.mu, 6), random.sigma) == (1000.0, 0.0)
    assert dumbbot.mu > greedy.mu
    assert greedy.sigma > 0


def test_another_calibrated_bot_fixes_the_scale_without_random() -> None:
    found = rated(("runs/best", "dumbbot"))
    assert found.fixed == "dumbbot"
    assert found.ratings[1].mu == pytest.approx(1265.2, abs=0.1)
    assert found.ratings[1].sigma == 0.0


def test_without_a_calibrated_bot_the_mean_is_1000_and_intervals_are_of_differences() -> None:
    found = rated(("a", "b", "c"))
    assert found.fixed is None
    assert sum(each.mu for each in found.ratings) / 3 == pytest.approx(1000.0)
    assert found.ratings[0].mu > found.ratings[1].mu > found.ratings[2].mu
    # Nothing is known of the level, whose standard deviation is above 350 / sqrt(3) = 202.
    assert all(0 < each.sigma < 150 for each in found.ratings)


def test_a_folder_with_the_name_of_a_bots_id_is_no_anchor() -> None:
    found = rated(("bot/random", "dumbbot"))
    assert found.fixed == "dumbbot"
    assert found.ratings[0].sigma > 0


def test_equal_places_leave_equal_players_alike() -> None:
    games = [replace(each, standing=Standing(dict.fromkeys(POWERS, 1 / 7), (POWERS,))) for each in played(3, rounds=6)]
    ratings = rate_tables(WORLD, ("a", "b", "c"), games).ratings
    for one, other in combinations(ratings, 2):
        assert abs(one.mu - other.mu) < 25


def test_games_without_a_standing_cannot_be_rated() -> None:
    games = [replace(each, standing=None) for each in played(2)]
    with pytest.raises(ValueError, match="has no standing"):
        rate_tables(WORLD, ("a", "b"), games)
