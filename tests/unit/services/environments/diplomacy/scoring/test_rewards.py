"""Scores, reward parts, their weights, and segments, against figures worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.environments.diplomacy.position import POWERS, segment
from services.environments.diplomacy.scoring import rewards, shares
from services.environments.diplomacy.scoring.shares import Outcome
from services.environments.playing import weigh

COUNTS = dict(zip(POWERS, (3, 4, 0, 5, 5, 10, 7), strict=True))
SOLO = dict(zip(POWERS, (0, 4, 18, 5, 0, 0, 7), strict=True))


def test_sum_of_squares_shares_follow_squared_centres_and_a_solo_takes_all():
    assert shares.sum_of_squares(COUNTS)["RUSSIA"] == 100 / (9 + 16 + 25 + 25 + 100 + 49)
    assert shares.sum_of_squares(SOLO, "FRANCE") == {power: float(power == "FRANCE") for power in POWERS}


def test_draw_size_shares_are_equal_among_survivors_and_a_solo_takes_all():
    equal = shares.draw_size(COUNTS)
    assert (equal["AUSTRIA"], equal["FRANCE"]) == (1 / 6, 0)
    agreed = shares.draw_size(COUNTS, drawn=("ITALY", "TURKEY"))
    assert (agreed["ITALY"], agreed["RUSSIA"]) == (0.5, 0)
    assert shares.draw_size(SOLO, "FRANCE")["TURKEY"] == 0


def test_proportional_shares_follow_centres():
    assert shares.proportional(SOLO)["FRANCE"] == 18 / 34


@given(st.lists(st.integers(0, 34), min_size=7, max_size=7))
def test_shares_sum_to_one_or_zero(counts):
    centers = dict(zip(POWERS, counts, strict=True))
    for score in (shares.draw_size, shares.sum_of_squares, shares.proportional):
        found = score(centers)
        assert sum(found.values()) == pytest.approx(1.0 if any(counts) else 0.0)
        assert min(found.values()) >= 0


def test_final_reward_parts_follow_a_solo_a_draw_or_the_year_limit():
    solo = Outcome(SOLO, "solo", ("FRANCE",), 1907, 30)
    assert rewards.final_parts(solo, "FRANCE") == {
        "centers": 18,
        "sum_of_squares": 1,
        "draw_size": 1,
        "proportional": 18 / 34,
        "survival": 1,
        "win": 1,
        "dipnet": 34,
    }
    assert rewards.final_parts(solo, "TURKEY") == {
        "centers": 7,
        "sum_of_squares": 0,
        "draw_size": 0,
        "proportional": 7 / 34,
        "survival": 1,
        "win": 0,
        "dipnet": 0,
    }
    drawn = rewards.final_parts(Outcome(COUNTS, "draw", ("ITALY", "TURKEY"), 1907, 30), "ITALY")
    assert (drawn["draw_size"], drawn["win"], drawn["dipnet"]) == (0.5, 0, 5)
    limit = rewards.final_parts(Outcome(COUNTS, "year_limit", (), 1907, 30), "FRANCE")
    assert set(limit.values()) == {0.0}
    assert tuple(limit) == rewards.FINAL_PARTS


def test_weigh_sums_parts_by_name():
    parts = rewards.phase_parts(before=4, after=6)
    assert parts == {"center_change": 2.0}
    assert weigh(parts, {"center_change": 0.5, "win": 10}) == 1.0
    assert weigh({"win": 1.0, "survival": 1.0}, {"win": 3}) == 3


def test_dipnets_weights_give_its_published_reward_of_a_won_game():
    solo = rewards.final_parts(Outcome(SOLO, "solo", ("FRANCE",), 1907, 30), "FRANCE")
    total = weigh(rewards.phase_parts(3, 18) | solo, rewards.DIPNET_WEIGHTS)
    assert total == (15 + 34) / 2


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"center_chnage": 1.0}, "did you mean 'center_change'"),
        ({"wins": 1.0}, "did you mean 'win'"),
        ({"win": float("nan")}, "finite"),
        ({"win": 0.0}, "every reward would be 0"),
        ({}, "every reward would be 0"),
    ],
)
def test_wrong_weights_raise_with_their_name(weights, message):
    with pytest.raises(ValueError, match=message):
        rewards.check_weights(weights)


@pytest.mark.parametrize(
    ("phase", "expected"),
    [("S1901M", "opening"), ("W1903A", "opening"), ("S1904M", "midgame"), ("F1908R", "midgame"), ("S1909M", "endgame")],
)
def test_a_phase_belongs_to_the_segment_of_its_year(phase, expected):
    assert segment(phase) == expected
