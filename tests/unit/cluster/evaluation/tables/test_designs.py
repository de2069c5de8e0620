"""Which games measure players: the same for all, every role equally often."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.evaluation.tables.designs import mixed_tables, one_against_others, rounds
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.settings import DiplomacyEvaluation, GameSettings
from services.environments.diplomacy.world import Diplomacy

WORLD = Diplomacy(GameSettings())


def test_all_players_meet_the_same_games_against_an_anchor() -> None:
    settings = DiplomacyEvaluation(games_per_country=3)
    first, second = (one_against_others(WORLD, settings, player, [2], "dumbbot", seed=5) for player in (0, 1))
    assert [table.seed for table in first] == [table.seed for table in second]
    assert len({table.seed for table in first}) == 21
    for one, other in zip(first, second, strict=True):
        assert one.seats[one.role] == 0
        assert other.seats[one.role] == 1
        assert one.measured == (one.role,)
        assert (
            {**one.seats, one.role: None}
            == {**other.seats, one.role: None}
            == {
                **dict.fromkeys(POWERS, 2),
                one.role: None,
            }
        )
    assert {table.seed for table in one_against_others(WORLD, settings, 0, [2], "random", 5)}.isdisjoint(
        table.seed for table in first
    )


@pytest.mark.parametrize("anchors", [(1, 2), (1, 2, 3), (1, 2, 3, 4)])
def test_several_anchors_share_the_other_seats_evenly_and_in_every_order(anchors: tuple[int, ...]) -> None:
    settings = DiplomacyEvaluation(games_per_country=40)
    tables = one_against_others(WORLD, settings, 0, anchors, "several", 0)
    each = 6 // len(anchors)
    for table in tables:
        seated = Counter(player for role, player in table.seats.items() if role != table.role)
        assert set(seated) == set(anchors)
        assert set(seated.values()) <= {each, each + (6 % len(anchors) > 0)}
    total = Counter(player for table in tables for player in table.seats.values())
    assert max(total[player] for player in anchors) - min(total[player] for player in anchors) <= 7
    beside_austria = Counter(table.seats["TURKEY"] for table in tables if table.role == "AUSTRIA")
    assert set(beside_austria) == set(anchors)
    assert one_against_others(WORLD, settings, 0, anchors, "several", 0) == tables


def test_a_round_has_every_role_once() -> None:
    tables = one_against_others(WORLD, DiplomacyEvaluation(games_per_country=4), 0, [1], "random", 0)
    found = rounds(tables)
    assert len(found) == 4
    assert all({table.role for table in own} == set(POWERS) for own in found)


@given(players=st.integers(2, 7), games=st.integers(1, 9), seed=st.integers(0, 2**40))
def test_mixed_tables_seat_every_player_equally_often_in_every_role(players: int, games: int, seed: int) -> None:
    tables = mixed_tables(WORLD, players, games, seed)
    seated = Counter((player, role) for table in tables for role, player in table.seats.items())
    by_player = [[seated[player, role] for role in POWERS] for player in range(players)]
    assert all(len(set(own)) == 1 for own in by_player)
    counts = [own[0] for own in by_player]
    assert min(counts) >= games
    assert max(counts) - min(counts) <= 1
    assert all(set(table.seats.values()) == set(range(players)) for table in tables)
    assert len({table.seed for table in tables}) == len(tables)


@pytest.mark.parametrize("players", [1, 8])
def test_a_mixed_table_has_two_to_seven_players(players: int) -> None:
    with pytest.raises(ValueError, match="mixed tables need 2 to 7 players"):
        mixed_tables(WORLD, players, 1, 0)
