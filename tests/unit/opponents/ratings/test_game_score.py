"""The result of a game for ratings: places, shares, and places whose order is unknown."""

from __future__ import annotations

import pytest

from opponents.ratings.game_score import GameScore
from services.environments.diplomacy.position import POWERS
from services.environments.playing import Standing
from tests.unit.opponents.world_cases import finished, score

SEATS = dict.fromkeys(POWERS, "bot/random")
TABLE = dict.fromkeys("ABC", "bot/fold")


def game(*centers: int, **others: object) -> GameScore:
    return score(SEATS, dict(zip(POWERS, centers, strict=True)), **others)


def test_places_follow_centres_then_later_elimination():
    score = game(8, 5, 12, 5, 0, 4, 0, eliminated={"ITALY": 1903, "TURKEY": 1905})
    assert score.places == (("FRANCE",), ("AUSTRIA",), ("ENGLAND", "GERMANY"), ("RUSSIA",), ("TURKEY",), ("ITALY",))
    assert not score.last_is_open
    assert score.score("FRANCE") == pytest.approx(144 / (64 + 25 + 144 + 25 + 16))
    assert sum(map(score.score, POWERS)) == pytest.approx(1)


def test_without_dates_the_order_of_eliminated_powers_is_unknown():
    score = game(8, 5, 12, 5, 0, 4, 0)
    assert score.places[-1] == ("ITALY", "TURKEY")
    assert score.last_is_open
    assert not game(8, 5, 12, 5, 2, 1, 1).last_is_open  # a tie of survivors is one


def test_after_a_solo_all_others_share_the_second_place():
    score = game(18, 9, 4, 3, 0, 0, 0, solo="AUSTRIA", eliminated={"ITALY": 1, "RUSSIA": 2, "TURKEY": 3})
    assert score.places == (("AUSTRIA",), POWERS[1:])
    assert score.last_is_open
    assert [score.score(power) for power in POWERS] == [1, 0, 0, 0, 0, 0, 0]


def test_any_seats_have_the_places_and_shares_of_their_standing():
    score = GameScore(TABLE, finished([("B",), ("A", "C")], last_is_open=True))
    assert (score.places, score.last_is_open) == ((("B",), ("A", "C")), True)
    assert [score.score(seat) for seat in "ABC"] == [0, 1, 0]


@pytest.mark.parametrize(
    ("seats", "standing", "message"),
    [
        ({"A": "bot/fold"}, finished(["A"]), "two seats or more, not A"),
        (TABLE, finished(["A", "B"]), "shares must be of A, B, C; got A, B"),
        (TABLE, finished(["A", "B", "C", "D"]), "shares must be of A, B, C; got A, B, C, D"),
        (
            TABLE,
            Standing(dict.fromkeys("ABC", 0.3), (("A",), ("B",))),
            "places must have each of A, B, C once; got A, B",
        ),
        (TABLE, Standing(dict.fromkeys("ABC", 0.3), (("A", "B"), ("C", "A"))), "once; got A, A, B, C"),
        (
            TABLE,
            Standing({"A": 1.5, "B": 0.0, "C": 0.0}, (("A",), ("B", "C"))),
            "share of A must be from 0 to 1, not 1.5",
        ),
        (TABLE, Standing({"A": 1, "B": float("nan"), "C": 0}, (("A",), ("B", "C"))), "share of B must be from 0 to 1"),
    ],
)
def test_impossible_games_are_refused(seats, standing, message):
    with pytest.raises(ValueError, match=message):
        GameScore(seats, standing)
