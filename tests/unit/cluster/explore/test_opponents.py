"""Who sat at the other seats over a run's updates."""

import pytest

from cluster.explore.opponents import OTHERS, SNAPSHOTS, members_of, opponents_over_updates, seats_in_words
from services.reports.run_report.schema import Audit, Lineup

LINEUPS = [
    Lineup(index=0, members={"A": "bot/greedy", "B": "bot/greedy", "C": "policy/v3"}),
    Lineup(index=1, members={"A": "policy/v4", "B": "policy/v3", "C": "policy/v3"}),
    Lineup(index=2),
]


def update(episodes, rewards):
    return Audit(version=1, episodes=episodes, roles=["A"] * len(episodes), rewards=rewards)


def test_shares_and_rewards_are_weighted_by_seats():
    first = update(["b000000/0", "b000000/1", "b000001/0"], [1.0, 2.0, 6.0])
    second = update(["b000001/1", "b000002/0", "b000009/0"], [5.0, 7.0, 7.0])
    found = opponents_over_updates([first, second], members_of(LINEUPS))
    assert list(found["seats"]) == [SNAPSHOTS, "greedy"]
    assert found["seats"] == {SNAPSHOTS: pytest.approx([5 / 9, 1.0]), "greedy": pytest.approx([4 / 9, 0.0])}
    assert found["reward"][SNAPSHOTS] == pytest.approx([(1 + 2 + 3 * 6) / 5, 5.0])
    assert found["reward"]["greedy"] == [1.5, None]


def test_rare_opponents_are_one_column():
    many = [Lineup(index=place, members={"A": f"bot/{place:02d}", "B": "bot/00"}) for place in range(12)]
    audit = update([f"b{place:06d}/0" for place in range(12)], [float(place) for place in range(12)])
    found = opponents_over_updates([audit], members_of(many))
    assert next(iter(found["seats"])) == "00"
    assert list(found["seats"])[-1] == OTHERS
    assert len(found["seats"]) == 9
    assert sum(column[0] for column in found["seats"].values()) == pytest.approx(1)
    assert found["reward"][OTHERS] == [pytest.approx((8 + 9 + 10 + 11) / 4)]


def test_without_lineups_there_is_nothing():
    audit = update(["b000000/0", "odd"], [1.0, 2.0])
    assert opponents_over_updates([audit], {}) == {"seats": {}, "reward": {}}
    assert opponents_over_updates([], members_of(LINEUPS)) == {"seats": {}, "reward": {}}


def test_a_missing_reward_counts_for_nothing():
    found = opponents_over_updates([update(["b000000/0", "b000000/1"], [None, 2.0])], members_of(LINEUPS))
    assert found["reward"]["greedy"] == [2.0]


def test_seats_in_words():
    members = members_of(LINEUPS)
    assert seats_in_words(members, "b0") == "2 greedy, policy/v3"
    assert seats_in_words(members, "b000001") == "2 policy/v3, policy/v4"
    assert seats_in_words(members, "b2") is None
    assert seats_in_words(members, "odd") is None
